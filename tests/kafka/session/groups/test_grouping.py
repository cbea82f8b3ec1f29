"""Groups: members are counted by live joins, subscriptions as they exist on the broker."""

import pytest
from kio.schema.errors import ErrorCode
from tests.kafka.session.messages import join, join_error, joined
from tests.kafka.session.wire import Bench, Wire

from sluicegate_kafka.session.shared.listing import ListGroups

GROUP_AUTHORIZATION_FAILED = 30
GROUP_MAX_SIZE_REACHED = 81


def joins(wire: Wire, group: str, member: str, *topics: str) -> int:
    """Join and, if the gateway lets it, have the broker agree; the error code that the client sees."""
    wire.client_sends(join(group, *(topics or ("t",)), member=member))
    if wire.forwarded():
        wire.broker_sends(joined(member))
    (answer,) = wire.answered()
    return join_error(answer)


def connection(first: Wire, host: int) -> Wire:
    """Another client of the same gate."""
    return Wire(Bench(), first.shared, peer=f"10.0.0.{host}:5000")


@pytest.mark.seed("S1-004", "S1-038", "S1-041")
def test_members_of_a_group_are_counted_and_leave_with_their_connection() -> None:
    one = Wire(Bench(max_consumers_per_subscription=2))
    two, three = connection(one, 2), connection(one, 3)
    assert joins(one, "g", "m1") == 0
    assert joins(two, "g", "m2") == 0
    assert joins(three, "g", "m3") == GROUP_MAX_SIZE_REACHED
    two.session.closed(two.now)
    assert joins(three, "g", "m3") == 0


def test_an_unnamed_client_library_gets_a_generic_code() -> None:
    one = Wire(Bench(max_consumers_per_subscription=1))
    two = Wire(Bench(), one.shared, peer="10.0.0.2:5000", software="")
    assert joins(one, "g", "m1") == 0
    assert joins(two, "g", "m2") == GROUP_AUTHORIZATION_FAILED


def test_a_member_that_joins_again_is_not_a_new_one() -> None:
    wire = Wire(Bench(max_consumers_per_topic=1))
    assert joins(wire, "g", "m1") == 0
    assert joins(wire, "g", "m1") == 0
    assert wire.shared.gate("t", False, wire.now).state.consumer_count == 1


def test_a_member_gets_its_name_from_the_broker() -> None:
    wire = Wire(Bench(max_consumers_per_topic=1))
    wire.client_sends(join("g", "t"))
    wire.broker_sends(joined("given", ErrorCode.member_id_required))
    wire.forwarded(), wire.answered()
    assert joins(wire, "g", "given") == 0
    assert wire.shared.gate("t", False, wire.now).state.consumer_count == 1


def test_a_join_that_the_broker_refuses_is_not_counted() -> None:
    wire = Wire(Bench(max_consumers_per_topic=1))
    wire.client_sends(join("g", "t", member="m"))
    wire.broker_sends(joined("", ErrorCode.unknown_member_id))
    wire.answered()
    assert wire.shared.gate("t", False, wire.now).state.consumer_count == 0


def test_a_member_refused_for_one_topic_is_attached_to_none() -> None:
    one = Wire(Bench(max_consumers_per_topic=1))
    two = connection(one, 2)
    assert joins(one, "g", "m1", "b") == 0
    assert joins(two, "h", "m2", "a", "b") == GROUP_MAX_SIZE_REACHED
    assert one.shared.gate("a", False, one.now).state.consumer_count == 0


@pytest.mark.seed("S1-002", "S1-034", "S1-036")
def test_subscriptions_that_exist_on_the_broker_count_before_any_passed_the_gateway() -> None:
    wire = Wire(Bench(max_subscriptions_per_topic=2))
    wire.client_sends(join("new", "t", member="m"))
    assert wire.asked == [ListGroups()]
    assert wire.upstream == b""
    wire.shared.learned.listing.learned({"t": {"old-1", "old-2"}}, wire.now, wire.now)
    wire.session.answered(ListGroups(), None, wire.now)
    for command in wire.session.receive_client(b"", wire.now):
        wire.commands.append(command)
    wire.shared.learned.listing.learned({"t": {"old-1", "old-2"}}, wire.now, wire.now)
    other = connection(wire, 2)
    assert joins(other, "new", "m") == GROUP_MAX_SIZE_REACHED
    assert joins(other, "old-1", "m") == 0


def test_the_broker_is_not_asked_again_within_seconds() -> None:
    wire = Wire(Bench(max_subscriptions_per_topic=2))
    wire.shared.learned.listing.learned({}, wire.now, wire.now)
    assert joins(wire, "a", "m") == 0
    assert joins(wire, "b", "m") == 0
    assert joins(wire, "c", "m") == GROUP_MAX_SIZE_REACHED
    assert wire.asked == []


@pytest.mark.seed("X-02")
def test_while_the_list_is_unknown_on_unknown_decides() -> None:
    paused = Wire(Bench(max_subscriptions_per_topic=2))
    paused.shared.learned.listing.learned(None, paused.now, paused.now)
    assert joins(paused, "g", "m") == 14
    opened = Wire(Bench({"max_subscriptions_per_topic": 2, "on_unknown.max_subscriptions_per_topic": "open"}))
    opened.shared.learned.listing.learned(None, opened.now, opened.now)
    assert joins(opened, "g", "m") == 0
