"""A subscription that is refused, by the gateway or by the broker, does not count on any topic."""

import datetime
from importlib import import_module
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kio.static.primitive import i32, i64
from tests.kafka.codec.entities import decode_response
from tests.kafka.session.messages import join, join_error, joined
from tests.kafka.session.wire import Bench, Wire, request, response

commit_request: Any = import_module("kio.schema.offset_commit.v8.request")
commit_response: Any = import_module("kio.schema.offset_commit.v8.response")

GROUP_FULL = 81


def wire() -> Wire:
    """Topic b is full; of what the broker has, the gateway knows."""
    bench = Bench()
    bench.set_topic("b", max_subscriptions_per_topic=1)
    made = Wire(bench)
    made.shared.learned.listing.learned({"b": {"old"}}, made.now, made.now)
    return made


def subscriptions(wire: Wire, topic: str = "a") -> int:
    """Subscriptions of a topic that are counted."""
    return wire.shared.gate(topic, False, wire.now).state.subscription_count


def commits(wire: Wire, group: str, *topics: str, refused: tuple[str, ...] = ()) -> list[int]:
    """Commit offsets, some of which the broker refuses; the error code of each topic."""
    entity = commit_request.OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=i32(-1),
        member_id="",
        topics=tuple(
            commit_request.OffsetCommitRequestTopic(
                name=topic,
                partitions=(
                    commit_request.OffsetCommitRequestPartition(
                        partition_index=i32(0), committed_offset=i64(1), committed_metadata=None
                    ),
                ),
            )
            for topic in topics
        ),
    )
    wire.client_sends(request(entity))
    if wire.forwarded():
        errors = {
            topic: ErrorCode.topic_authorization_failed if topic in refused else ErrorCode.none
            for topic in topics
        }
        answer = commit_response.OffsetCommitResponse(
            throttle_time=datetime.timedelta(0),
            topics=tuple(
                commit_response.OffsetCommitResponseTopic(
                    name=topic,
                    partitions=(
                        commit_response.OffsetCommitResponsePartition(
                            partition_index=i32(0), error_code=error
                        ),
                    ),
                )
                for topic, error in errors.items()
            ),
        )
        wire.broker_sends(response(answer))
    (frame,) = wire.answered()
    told: Any = decode_response(frame, 8, 8)[1]
    return [int(topic.partitions[0].error_code) for topic in told.topics]


@pytest.mark.seed("S1-002", "S1-034")
def test_a_join_refused_for_one_topic_leaves_no_subscription_on_another() -> None:
    one = wire()
    one.client_sends(join("new", "a", "b", member="m"))
    assert join_error(one.answered()[0]) == GROUP_FULL
    assert subscriptions(one) == 0


def test_a_join_that_the_broker_refuses_leaves_no_subscription() -> None:
    one = wire()
    one.client_sends(join("new", "a"))
    assert subscriptions(one) == 1
    one.broker_sends(joined("", ErrorCode.group_authorization_failed))
    assert subscriptions(one) == 0


def test_a_client_that_goes_before_the_broker_agreed_leaves_no_subscription() -> None:
    one = wire()
    one.client_sends(join("new", "a"))
    one.broker_sends(joined("given", ErrorCode.member_id_required))
    assert subscriptions(one) == 1
    one.session.closed(one.now)
    assert subscriptions(one) == 0


def test_a_group_that_the_broker_took_stays_when_its_member_leaves_or_is_refused_later() -> None:
    one = wire()
    one.client_sends(join("new", "a", member="m"))
    one.broker_sends(joined("m"))
    one.client_sends(join("new", "a", "b", member="m"))
    assert join_error(one.answered()[-1]) == GROUP_FULL
    assert subscriptions(one) == 1
    one.session.closed(one.now)
    assert subscriptions(one) == 1


def test_another_members_group_is_not_taken_back() -> None:
    one = wire()
    two = Wire(Bench(), one.shared, peer="10.0.0.2:1")
    one.client_sends(join("new", "a"))
    two.client_sends(join("new", "a", member="n"))
    two.broker_sends(joined("n"))
    one.broker_sends(joined("", ErrorCode.group_authorization_failed))
    assert subscriptions(one) == 1


def test_a_group_that_the_broker_refuses_to_both_its_members_leaves_no_subscription() -> None:
    one = wire()
    two = Wire(Bench(), one.shared, peer="10.0.0.2:1")
    for each, member in ((one, "m"), (two, "n")):
        each.client_sends(join("new", "a", member=member))
    for each, counted in ((one, 1), (two, 0)):
        each.broker_sends(joined("", ErrorCode.group_authorization_failed))
        assert subscriptions(one) == counted


def test_a_commit_refused_for_one_topic_leaves_no_subscription_on_another() -> None:
    one = wire()
    assert commits(one, "new", "a", "b") == [GROUP_FULL] * 2
    assert subscriptions(one) == 0


def test_a_commit_that_the_broker_refuses_leaves_no_subscription() -> None:
    one = wire()
    assert commits(one, "new", "a", "c", refused=("a",)) == [29, 0]
    assert (subscriptions(one, "a"), subscriptions(one, "c")) == (0, 1)
    assert commits(one, "new", "c", refused=("c",)) == [29]
    assert subscriptions(one, "c") == 1, "it was there before"
