"""Which consumers count on which topic, where joins are held, refused, lost or name no topic."""

import datetime
from importlib import import_module
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kio.static.primitive import i32
from tests.kafka.session.messages import batch, fetch, fetch_errors, fetched, join, join_error, joined
from tests.kafka.session.wire import Bench, Wire, request, response

from sluicegate.model import Level, PolicyLayer, Setting, Source
from sluicegate_kafka.session.shared.listing import ListGroups

COORDINATOR_LOAD_IN_PROGRESS = 14
GROUP_MAX_SIZE_REACHED = 81
leave_request: Any = import_module("kio.schema.leave_group.v5.request")
leave_response: Any = import_module("kio.schema.leave_group.v5.response")
classic_request: Any = import_module("kio.schema.heartbeat.v4.request")
classic_response: Any = import_module("kio.schema.heartbeat.v4.response")
heartbeat_request: Any = import_module("kio.schema.consumer_group_heartbeat.v1.request")
heartbeat_response: Any = import_module("kio.schema.consumer_group_heartbeat.v1.response")


def heartbeat(*topics: str, member: str = "m", epoch: int = 0, pattern: str | None = None) -> bytes:
    """A member's heartbeat by KIP-848."""
    entity = heartbeat_request.ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id=member,
        member_epoch=i32(epoch),
        instance_id=None,
        rack_id=None,
        rebalance_timeout=datetime.timedelta(seconds=30),
        subscribed_topic_names=topics,
        subscribed_topic_regex=pattern,
        server_assignor=None,
        topic_partitions=None,
    )
    return request(entity)


def beaten(error: ErrorCode = ErrorCode.none) -> bytes:
    """The coordinator's answer to a heartbeat."""
    entity = heartbeat_response.ConsumerGroupHeartbeatResponse(
        throttle_time=datetime.timedelta(0),
        error_code=error,
        error_message=None,
        member_id=None,
        member_epoch=i32(1),
        heartbeat_interval=datetime.timedelta(seconds=5),
        assignment=None,
    )
    return response(entity)


def consumers(wire: Wire, topic: str = "t") -> int:
    """Consumers of a topic that are counted."""
    return wire.shared.gate(topic, False, wire.now).state.consumer_count


def fetches(wire: Wire, topic: str = "t", client_id: str = "app") -> int:
    """Fetch a topic of which there are records; the error code that the client sees."""
    wire.client_sends(fetch(topic, client_id=client_id))
    wire.broker_sends(fetched({topic: batch(b"x")}))
    frames = wire.answered()
    if not frames:  # all refused: the answer comes later
        wire.wait(0.5)
        frames = wire.answered()
    return fetch_errors(frames[0])[topic]


def joins(wire: Wire, group: str, member: str, *topics: str, client_id: str = "app") -> int:
    """Join and, if the gateway lets it, have the broker agree; the error code that the client sees."""
    wire.forwarded()
    wire.client_sends(join(group, *topics, member=member, client_id=client_id))
    if wire.forwarded():
        wire.broker_sends(joined(member))
    (answer,) = wire.answered()
    return join_error(answer)


def test_an_unanswered_question_is_not_repeated_forever() -> None:
    wire = Wire(Bench(max_subscriptions_per_topic=1))
    wire.client_sends(join("g", "t"))
    commands = wire.session.answered(ListGroups(), TimeoutError(), wire.now)
    for command in commands:
        wire.downstream += bytes(getattr(command, "data", b""))
    (answer,) = wire.answered()
    assert join_error(answer) == COORDINATOR_LOAD_IN_PROGRESS


def test_a_member_of_more_topics_than_the_rate_lets_attach_at_once_gets_in() -> None:
    wire = Wire(Bench(connection_rate_limit=1))
    wire.client_sends(join("g", "a", "b", "c", member="m"))
    wire.wait(2.1)
    assert len(wire.forwarded()) == 1
    assert [consumers(wire, topic) for topic in "abc"] == [1, 1, 1]


def test_a_join_is_held_no_longer_than_any_other_request_and_resumes_where_it_was() -> None:
    wire = Wire(Bench(connection_rate_limit=1))
    topics = [f"t{number}" for number in range(15)]
    wire.client_sends(join("g", *topics, member="m"))
    wire.take_turns()
    wire.wait(9.9)
    assert wire.downstream == b""
    wire.wait(0.2)
    (answer,) = wire.answered()
    assert join_error(answer) == COORDINATOR_LOAD_IN_PROGRESS
    assert wire.upstream == b""
    wire.client_sends(join("g", *topics, member="m"))
    wire.wait(5)
    assert len(wire.forwarded()) == 1
    wire.session.closed(wire.now)
    assert not any(consumers(wire, topic) for topic in topics)


def test_a_held_join_that_is_finally_refused_leaves_no_topic_attached() -> None:
    bench = Bench(connection_rate_limit=1, max_consumers_per_topic=1)
    one = Wire(bench)
    assert joins(one, "h", "m1", "c") == 0
    two = Wire(bench, one.shared, peer="10.0.0.2:1")
    two.now = one.now
    two.client_sends(join("g", "a", "b", "c", member="m2"))
    two.wait(5)
    (answer,) = two.answered()
    assert join_error(answer) == GROUP_MAX_SIZE_REACHED
    assert [consumers(one, topic) for topic in "abc"] == [0, 0, 1]


@pytest.mark.parametrize("member", ["", "m"])
def test_a_join_that_is_finally_refused_leaves_nothing_of_the_attempts_before(member: str) -> None:
    bench = Bench(connection_rate_limit=1)
    bench.set_topic("e", max_consumers_per_topic=1)
    wire = Wire(bench, max_hold=2_000)
    other = Wire(bench, wire.shared, peer="10.0.0.2:1")
    assert joins(other, "x", "m", "e") == 0
    if member:
        wire.wait(1)
        assert joins(wire, "g", member, "a") == 0
    told = []
    for _ in range(2):
        wire.client_sends(join("g", *"abcde", member=member))
        wire.wait(2.1)
        told += [join_error(frame) for frame in wire.answered()]
    assert told == [COORDINATOR_LOAD_IN_PROGRESS, GROUP_MAX_SIZE_REACHED]
    assert [consumers(wire, topic) for topic in "abcde"] == [1 if member else 0, 0, 0, 0, 1]


def test_a_member_that_the_broker_refuses_by_heartbeat_is_not_counted() -> None:
    wire = Wire(Bench(max_consumers_per_topic=1))
    wire.client_sends(heartbeat("t"))
    assert consumers(wire) == 1
    wire.broker_sends(beaten(ErrorCode.group_authorization_failed))
    assert consumers(wire) == 0


def test_a_change_of_subscription_that_the_broker_cannot_take_now_keeps_the_member() -> None:
    wire = Wire(Bench(max_consumers_per_topic=1))
    wire.client_sends(heartbeat("t"))
    wire.broker_sends(beaten())
    wire.client_sends(heartbeat("t", "u", epoch=1))
    wire.broker_sends(beaten(ErrorCode.coordinator_load_in_progress))
    assert consumers(wire) == 1


def test_a_member_by_pattern_counts_from_its_first_fetch() -> None:
    bench = Bench(max_consumers_per_topic=1)
    one = Wire(bench, peer="10.0.0.1:1")
    two = Wire(bench, one.shared, peer="10.0.0.2:1")
    for wire in (one, two):
        wire.client_sends(heartbeat(pattern="t.*", member=wire.session.connection.peer))
        wire.broker_sends(beaten())
        wire.answered()
    assert (fetches(one), fetches(two)) == (0, 29)


def test_a_client_in_two_groups_is_not_counted_once_more_for_fetching() -> None:
    bench = Bench(max_consumers_per_topic=2)
    coordinator = Wire(bench)
    other = Wire(bench, coordinator.shared, peer="10.0.0.1:5001")
    assert joins(coordinator, "g", "m1", "t") == 0
    assert joins(other, "h", "m2", "t") == 0
    leader = Wire(bench, coordinator.shared, peer="10.0.0.1:5002")
    assert fetches(leader) == 0
    assert consumers(leader) == 2


def test_a_member_that_lost_its_coordinator_and_fetched_is_not_refused_as_another_one() -> None:
    bench = Bench(max_consumers_per_topic=1)
    coordinator = Wire(bench)
    assert joins(coordinator, "g", "m", "t") == 0
    leader = Wire(bench, coordinator.shared, peer="10.0.0.1:5001")
    coordinator.session.closed(coordinator.now)
    assert fetches(leader) == 0
    again = Wire(bench, coordinator.shared, peer="10.0.0.1:5002")
    assert joins(again, "g", "m", "t") == 0
    assert fetches(leader) == 0
    assert consumers(leader) == 1
    # Once it is no member any more, it counts for its fetching again.
    again.session.closed(again.now)
    assert fetches(leader) == 0
    assert consumers(leader) == 1


@pytest.mark.parametrize("limit", [0, 2])
def test_a_refused_consumer_gets_in_when_the_limit_allows_it(limit: int) -> None:
    bench = Bench(max_consumers_per_topic=1, max_dispatch_rate=1000)
    one = Wire(bench, peer="10.0.0.1:1")
    two = Wire(bench, one.shared, peer="10.0.0.2:1")
    assert (fetches(one), fetches(two)) == (0, 29)
    bench.set(max_dispatch_rate=1000, **({"max_consumers_per_topic": limit} if limit else {}))
    # A session's next request names no topic that it named before.
    two.client_sends(fetch())
    two.broker_sends(fetched({"t": batch(b"x")}))
    assert fetch_errors(two.answered()[0]) == {"t": 0}


def test_consumers_are_counted_where_only_a_ceiling_limits_them() -> None:
    bench = Bench()
    ceiling = {"max_consumers_per_topic": Setting(1, Source.FILE, "test")}
    bench.set_layers(PolicyLayer(Level.BROKER, "", {}, ceiling))
    one = Wire(bench, peer="10.0.0.1:1")
    two = Wire(bench, one.shared, peer="10.0.0.2:1")
    assert (fetches(one), fetches(two)) == (0, 29)


def test_countless_groups_close_their_connection() -> None:
    wire = Wire(Bench(), max_requests_in_flight=2_000)
    for number in range(1_001):
        wire.client_sends(join(f"g{number}", "t", member="m"))
    assert wire.closed is not None
    assert "members" in wire.closed.detail
    wire.session.closed(wire.now)
    assert consumers(wire) == 0


def beat(member: str, instance_id: str | None = None) -> bytes:
    """A heartbeat by the classic protocol."""
    entity = classic_request.HeartbeatRequest(
        group_id="g", generation_id=i32(1), member_id=member, group_instance_id=instance_id
    )
    return request(entity)


def classic_beat(wire: Wire, member: str, error: ErrorCode, instance_id: str | None = None) -> None:
    """The same, and the coordinator's answer."""
    wire.forwarded()
    wire.client_sends(beat(member, instance_id))
    answer = classic_response.HeartbeatResponse(throttle_time=datetime.timedelta(0), error_code=error)
    wire.broker_sends(response(answer))
    wire.answered()


def test_a_member_that_the_broker_expelled_does_not_count() -> None:
    wire = Wire(Bench(max_consumers_per_subscription=1))
    assert joins(wire, "g", "first", "t") == 0
    classic_beat(wire, "first", ErrorCode.none)
    assert consumers(wire) == 1
    classic_beat(wire, "first", ErrorCode.unknown_member_id)
    assert consumers(wire) == 0
    assert joins(wire, "g", "second", "t") == 0


def test_a_client_that_lost_its_member_id_is_not_refused_because_of_itself() -> None:
    """The broker may tell it by any answer, such as that to a commit."""
    wire = Wire(Bench(max_consumers_per_subscription=1))
    assert joins(wire, "g", "first", "t") == 0
    assert joins(wire, "other", "first", "u") == 0
    wire.client_sends(join("g", "t"))
    wire.broker_sends(joined("second", ErrorCode.member_id_required))
    wire.answered()
    assert joins(wire, "g", "second", "t") == 0
    assert consumers(wire) == consumers(wire, "u") == 1
    # Nobody is a member without being counted.
    wire.client_sends(beat("first"))
    assert (wire.forwarded(), len(wire.answered())) == ([], 1)


def test_a_static_member_counts_whatever_member_id_it_claims() -> None:
    wire = Wire(Bench(max_consumers_per_subscription=1))
    wire.client_sends(join("g", "t", member="real", instance_id="static"))
    wire.broker_sends(joined("real"))
    classic_beat(wire, "false", ErrorCode.unknown_member_id, instance_id="static")
    assert consumers(wire) == 1


def test_a_member_of_the_new_protocol_that_the_broker_expelled_does_not_count() -> None:
    wire = Wire(Bench(max_consumers_per_subscription=1))
    wire.client_sends(heartbeat("t"))
    wire.broker_sends(beaten())
    assert consumers(wire) == 1
    wire.client_sends(heartbeat(epoch=1))
    wire.broker_sends(beaten(ErrorCode.unknown_member_id))
    assert consumers(wire) == 0


def test_two_simultaneous_joins_without_member_ids_are_two_members() -> None:
    wire = Wire(Bench(max_consumers_per_topic=1))
    wire.client_sends(join("g", "t"))
    wire.client_sends(join("g", "t"))
    assert len(wire.forwarded()) == 1
    assert wire.closed


@pytest.mark.parametrize(
    ("instance_id", "error", "counted"),
    [
        (None, ErrorCode.none, 0),
        (None, ErrorCode.unknown_member_id, 0),
        ("static", ErrorCode.none, 0),
        ("static", ErrorCode.unknown_member_id, 1),
        ("static", ErrorCode.fenced_instance_id, 1),
    ],
)
def test_a_member_leaves_when_the_broker_says_so(
    instance_id: str | None, error: ErrorCode, counted: int
) -> None:
    wire = Wire(Bench(max_consumers_per_subscription=1))
    wire.client_sends(join("g", "t", member="m", instance_id=instance_id))
    wire.broker_sends(joined("m"))
    wire.client_sends(
        request(
            leave_request.LeaveGroupRequest(
                group_id="g",
                members=(
                    leave_request.MemberIdentity(member_id="m", group_instance_id=instance_id, reason=None),
                ),
            )
        )
    )
    assert consumers(wire) == 1
    wire.broker_sends(
        response(
            leave_response.LeaveGroupResponse(
                throttle_time=datetime.timedelta(0),
                error_code=ErrorCode.none,
                members=(
                    leave_response.MemberResponse(
                        member_id="m", group_instance_id=instance_id, error_code=error
                    ),
                ),
            )
        )
    )
    assert consumers(wire) == counted
