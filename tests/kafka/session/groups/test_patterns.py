"""Members by KIP-848 whose topics the broker resolves: only the assignment in its answer names them."""

import datetime
import uuid
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kio.static.primitive import i32
from tests.kafka.codec.entities import decode_request, decode_response
from tests.kafka.session.messages import fetch, fetch_errors, fetched
from tests.kafka.session.requests.test_slices import commit
from tests.kafka.session.wire import SECOND, Bench, Wire, request, response

from sluicegate.broker import NextTurn
from sluicegate_kafka.session.shared.listing import ListGroups

heartbeat_request: Any = import_module("kio.schema.consumer_group_heartbeat.v1.request")
heartbeat_response: Any = import_module("kio.schema.consumer_group_heartbeat.v1.response")
metadata_response: Any = import_module("kio.schema.metadata.v12.response")

HEARTBEAT, METADATA = 68, 3
LOADING, GROUP_FULL = 14, 81
IDS = {name: uuid.UUID(int=number) for number, name in enumerate("tuv", start=1)}


def beat(
    group: str = "g",
    member: str = "m",
    epoch: int = 0,
    topics: Sequence[str] | None = (),
    regex: str | None = "t.*",
    correlation_id: int = 1,
) -> bytes:
    """A member's heartbeat; by default one that joins with a pattern."""
    entity = heartbeat_request.ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=member,
        member_epoch=i32(epoch),
        instance_id=None,
        rack_id=None,
        rebalance_timeout=datetime.timedelta(seconds=30),
        subscribed_topic_names=topics,
        subscribed_topic_regex=regex,
        server_assignor=None,
        topic_partitions=None,
    )
    return request(entity, correlation_id)


def told(assigned: Mapping[str, Sequence[int]] | None, correlation_id: int = 1, member: str = "m") -> bytes:
    """The coordinator's answer, with an assignment or none."""
    assignment = None
    if assigned is not None:
        partitions = tuple(
            heartbeat_response.TopicPartitions(topic_id=IDS[topic], partitions=tuple(map(i32, indexes)))
            for topic, indexes in assigned.items()
        )
        assignment = heartbeat_response.Assignment(topic_partitions=partitions)
    entity = heartbeat_response.ConsumerGroupHeartbeatResponse(
        throttle_time=datetime.timedelta(0),
        error_code=ErrorCode.none,
        error_message=None,
        member_id=member,
        member_epoch=i32(1),
        heartbeat_interval=datetime.timedelta(seconds=5),
        assignment=assignment,
    )
    return response(entity, correlation_id)


def named(frame: bytes) -> bytes:
    """The broker's answer to the gateway's question for topic names."""
    asked = decode_request(frame, METADATA, 12)
    known = {topic_id: name for name, topic_id in IDS.items()}
    entity = metadata_response.MetadataResponse(
        throttle_time=datetime.timedelta(0),
        brokers=(),
        cluster_id=None,
        controller_id=-1,
        topics=tuple(
            metadata_response.MetadataResponseTopic(
                error_code=ErrorCode.none,
                name=known[topic.topic_id],
                topic_id=topic.topic_id,
                partitions=(),
            )
            for topic in asked.topics
        ),
    )
    return response(entity, int.from_bytes(frame[4:8], "big", signed=True))


def assigned(wire: Wire, partitions: Mapping[str, Sequence[int]] | None, **options: Any) -> int:
    """A heartbeat and the broker's answer to it; the error code that the client sees."""
    wire.client_sends(beat(**options))
    wire.forwarded()
    wire.broker_sends(told(partitions, member=options.get("member", "m")))
    answers_questions(wire)
    (answer,) = wire.answered()
    return error_of(answer)


def answers_questions(wire: Wire) -> None:
    """Answer what the gateway asks in the client's name."""
    for frame in wire.forwarded():
        if int.from_bytes(frame[:2], "big") == METADATA:
            wire.broker_sends(named(frame))


def error_of(frame: bytes) -> int:
    """The error code of a heartbeat's answer."""
    entity: Any = decode_response(frame, HEARTBEAT, 1)[1]
    return int(entity.error_code)


def consumers(wire: Wire, topic: str = "t") -> int:
    """Consumers that are counted."""
    return wire.shared.gate(topic, False, wire.now).state.consumer_count


def another(first: Wire, number: int = 2) -> Wire:
    """A client on another host."""
    return Wire(Bench(), first.shared, peer=f"10.0.0.{number}:5000")


@pytest.mark.seed("S1-003", "S1-004", "S1-037", "S1-038")
@pytest.mark.parametrize("policy", ["max_consumers_per_topic", "max_consumers_per_subscription"])
def test_a_member_by_pattern_counts_before_it_receives_its_partitions(policy: str) -> None:
    one = Wire(Bench({policy: 1}))
    two = another(one)
    assert assigned(one, {"t": [0]}) == 0
    assert consumers(one) == 1
    two.client_sends(beat(member="n"))
    two.forwarded()
    two.broker_sends(told({"t": [1]}, member="n"))
    (answer,) = two.answered()  # the name is known by now
    assert error_of(answer) == GROUP_FULL
    (leaves,) = [decode_request(frame, HEARTBEAT, 1) for frame in two.forwarded()]
    assert (leaves.group_id, leaves.member_id, leaves.member_epoch) == ("g", "n", -1)
    two.broker_sends(told(None, -848))
    assert two.answered() == [], "the client sees nothing of it"
    assert consumers(one) == 1


def test_an_assignment_waits_until_the_names_of_its_topics_are_known() -> None:
    one = Wire(Bench(max_consumers_per_topic=1))
    one.client_sends(beat())
    one.client_sends(fetch("x", correlation_id=2))
    one.forwarded()
    one.broker_sends(told({"t": [0], "u": [0]}))
    assert one.answered() == []
    one.broker_sends(fetched({}, correlation_id=2))
    assert one.answered() == []
    answers_questions(one)
    first, _ = one.answered()
    assert first == told({"t": [0], "u": [0]})[4:], "it is the broker's own"
    assert (consumers(one, "t"), consumers(one, "u")) == (1, 1)


def test_a_question_of_the_gates_own_waits_for_the_end_of_a_request_that_passes_in_pieces() -> None:
    one = Wire(Bench(max_consumers_per_topic=1))
    one.client_sends(beat())
    one.forwarded()
    unread = bytes.fromhex("0000000c 0016 0000 00000005 ffff 0000")  # InitProducerId
    one.client_sends(unread[:13])
    one.broker_sends(told({"t": [0]}))
    assert one.forwarded() == []
    one.client_sends(unread[13:])
    first, question = one.forwarded()
    assert first == unread[4:]
    one.broker_sends(bytes.fromhex("00000004 00000005"))
    one.broker_sends(named(question))
    assert len(one.answered()) == 2


def test_a_question_of_the_gates_own_goes_before_what_comes_with_the_end_of_that_request() -> None:
    one = Wire(Bench(max_consumers_per_topic=1))
    one.client_sends(beat())
    one.forwarded()
    unread = bytes.fromhex("0000000c 0016 0000 00000005 ffff 0000")
    one.client_sends(unread[:13])
    one.broker_sends(told({"t": [0]}))

    one.client_sends(unread[13:] + unread)

    first, question, second = one.forwarded()
    assert first == second == unread[4:]
    one.broker_sends(bytes.fromhex("00000004 00000005"), named(question), bytes.fromhex("00000004 00000005"))
    assert (len(one.answered()), one.closed) == (3, None)


def test_an_assignment_that_waits_counts_nobody_once_its_client_is_closed() -> None:
    one = Wire(Bench(max_subscriptions_per_topic=1))
    one.client_sends(beat())
    one.forwarded()
    one.broker_sends(told({"t": [0]}))
    (question,) = one.forwarded()
    one.broker_sends(named(question))
    assert ListGroups() in one.asked

    one.session.closed(one.now)
    one.front_answers(ListGroups())

    assert consumers(one) == 0


def test_a_client_retries_while_the_broker_does_not_return_topic_names() -> None:
    one = Wire(Bench(max_consumers_per_topic=1))
    one.client_sends(beat())
    one.forwarded()
    one.broker_sends(told({"t": [0]}))
    one.wait(9.9)
    assert one.answered() == []
    one.wait(0.2)
    (answer,) = one.answered()
    assert error_of(answer) == LOADING
    answers_questions(one)
    assert one.answered() == []
    assert consumers(one) == 0
    assert assigned(one, {"t": [0]}) == 0
    assert consumers(one) == 1


def test_names_are_waited_for_whatever_else_is_answered_meanwhile() -> None:
    one = Wire(Bench(max_consumers_per_topic=1))
    one.client_sends(beat())
    one.forwarded()
    one.broker_sends(told({"t": [0]}))
    one.carry_out(one.session.answered(NextTurn(), None, one.now))
    one.carry_out(one.session.answered(ListGroups(), None, one.now))
    assert one.answered() == []
    answers_questions(one)
    assert len(one.answered()) == 1
    assert consumers(one) == 1


def test_later_assignments_count_and_revoked_ones_do_not() -> None:
    one = Wire(Bench(max_consumers_per_topic=1))
    assert assigned(one, {}) == 0
    assert assigned(one, {"t": [0]}, epoch=1, topics=None, regex=None) == 0
    assert assigned(one, {"u": [0]}, epoch=2, topics=None, regex=None) == 0
    assert (consumers(one, "t"), consumers(one, "u")) == (0, 1)
    assert assigned(one, None, epoch=2, topics=None, regex=None) == 0
    assert consumers(one, "u") == 1
    one.client_sends(beat(epoch=-1, topics=None, regex=None))
    assert consumers(one, "u") == 1, "it leaves when the broker says so"
    one.broker_sends(told(None))
    assert consumers(one, "u") == 0


def test_a_full_heartbeat_keeps_topics_matched_by_the_pattern() -> None:
    one = Wire(Bench(max_consumers_per_topic=1))
    assert assigned(one, {"t": [0]}) == 0
    assert assigned(one, None, epoch=1, topics=("v",), regex="t.*") == 0
    assert (consumers(one, "t"), consumers(one, "v")) == (1, 1)
    assert assigned(one, None, epoch=1, topics=("v",), regex="") == 0
    assert (consumers(one, "t"), consumers(one, "v")) == (0, 1)


@pytest.mark.seed("S1-002", "S1-034")
def test_a_group_by_pattern_is_a_subscription_of_what_it_is_assigned() -> None:
    one = Wire(Bench(max_subscriptions_per_topic=1))
    one.client_sends(beat())
    one.forwarded()
    one.broker_sends(told({"t": [0]}))
    answers_questions(one)
    assert one.asked == [ListGroups()]
    assert one.answered() == []
    one.shared.learned.listing.learned({"t": {"old"}}, one.now, one.now)
    one.carry_out(one.session.answered(ListGroups(), None, one.now))
    (answer,) = one.answered()
    assert error_of(answer) == GROUP_FULL
    two = another(one)
    assert assigned(two, {"t": [0]}, group="old") == 0


def test_an_assignment_identifies_the_group_of_a_fetch() -> None:
    one = Wire(Bench(max_subscription_dispatch_rate=100))
    two = Wire(Bench(), one.shared, peer="10.0.0.1:5001")
    assert assigned(one, {"t": [1]}, group="a") == 0
    assert assigned(two, {"t": [0]}, group="b", member="n") == 0
    reader = Wire(Bench(), one.shared, peer="10.0.0.1:5002")
    reader.client_sends(fetch("t"))
    assert reader.session.fetching.reading.subscriptions("t", reader.now) == ("b",)


def test_without_policies_nothing_is_asked_and_nothing_waits() -> None:
    one = Wire(Bench(max_message_size=100))
    assert assigned(one, {"t": [0]}) == 0
    assert assigned(one, {"t": [0]}, epoch=1, topics=None, regex=None) == 0
    assert one.forwarded() == []


def test_a_member_that_returns_by_another_connection_is_counted_again() -> None:
    one = Wire(Bench(max_consumers_per_topic=1))
    assert assigned(one, {"t": [0]}) == 0
    one.session.closed(one.now)
    assert consumers(one) == 0
    again = Wire(Bench(), one.shared, peer="10.0.0.1:5001")
    assert assigned(again, {"t": [0]}, epoch=1, topics=None, regex=None) == 0
    assert consumers(one) == 1


def test_fetching_a_topic_matched_by_a_pattern_does_not_count_twice() -> None:
    one = Wire(Bench(max_consumers_per_topic=1))
    assert assigned(one, {"t": [0]}) == 0
    reader = Wire(Bench(), one.shared, peer="10.0.0.1:5001")
    reader.now = one.now + SECOND
    reader.client_sends(fetch("t"))
    reader.broker_sends(fetched({"t": b""}))
    assert fetch_errors(reader.answered()[0]) == {"t": 0}
    assert consumers(one) == 1


def test_an_eviction_goes_upstream_before_a_commit_that_waited_for_the_same_groups() -> None:
    """They wait for one list when an assignment makes room for a commit that was not read yet."""
    wire = Wire(Bench(max_subscriptions_per_topic=1), max_requests_in_flight=2)
    wire.shared.learned.learn_topic_names({topic_id.bytes: name for name, topic_id in IDS.items()})
    list_transactions = bytes.fromhex("0000000c 0042 0000 00000001 ffff 0000")  # of no interest
    wire.client_sends(list_transactions, beat("new", correlation_id=2), commit("other", {"v": 1}, 3))
    assert len(wire.forwarded()) == 2
    wire.broker_sends(bytes.fromhex("00000004 00000001"), told({"t": [0]}, 2))
    wire.shared.learned.listing.learned({"t": {"old"}}, wire.now, wire.now)
    wire.front_answers(ListGroups())
    evicted, committed = wire.forwarded()
    assert (evicted[:2], committed[:2]) == (b"\0\x44", b"\0\x08")
