"""Which consumer a Fetch belongs to, where equal clients are in one group, in several, or in none."""

import datetime
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.static.primitive import i32, i64
from tests.kafka.codec.entities import decode_response
from tests.kafka.session.messages import (
    batch,
    fetch,
    fetch_errors,
    fetched,
    join,
    join_error,
    joined,
    records_of,
)
from tests.kafka.session.wire import SECOND, Bench, Wire, request, response

from sluicegate_kafka.codec.slices import at_once
from sluicegate_kafka.session.shared.audience import Audience
from sluicegate_kafka.session.shared.client_counts import Places
from sluicegate_kafka.session.shared.readers import Membership, Reader

sync_request: Any = import_module("kio.schema.sync_group.v5.request")
beat_request: Any = import_module("kio.schema.heartbeat.v4.request")
beat_response: Any = import_module("kio.schema.heartbeat.v4.response")
offsets_request: Any = import_module("kio.schema.offset_fetch.v7.request")
offsets_response: Any = import_module("kio.schema.offset_fetch.v7.response")
sync_response: Any = import_module("kio.schema.sync_group.v5.response")

UNKNOWN_MEMBER = 25
FORBIDDEN = 29
GROUP_FULL = 81
NO_TIME = datetime.timedelta(0)
TEN = batch(*[b"x"] * 10)
"""Ten records."""


def wire(first: Wire, number: int, node: str = "node-1") -> Wire:
    """One more connection from the same host."""
    made = Wire(Bench(), first.shared, peer=f"10.0.0.1:{5_000 + number}", node=node)
    made.now = first.now
    return made


def joins(wire: Wire, group: str, member: str = "m", topic: str = "t") -> int:
    """Join a group as a new member; the error code that the client sees."""
    wire.client_sends(join(group, topic))
    if wire.forwarded():
        wire.broker_sends(joined(member, ErrorCode.member_id_required))
        assert join_error(wire.answered()[0]) == ErrorCode.member_id_required
        wire.client_sends(join(group, topic, member=member))
        wire.broker_sends(joined(member))
        wire.forwarded()
    (answer,) = wire.answered()
    return join_error(answer)


def syncs(wire: Wire, group: str, *partitions: int, member: str = "m", topic: str = "t") -> None:
    """Be told what to fetch."""
    entity = sync_request.SyncGroupRequest(
        group_id=group,
        generation_id=i32(1),
        member_id=member,
        protocol_type=None,
        protocol_name=None,
        assignments=(),
    )
    wire.client_sends(request(entity))
    name = topic.encode()
    assignment = (0).to_bytes(2, "big") + (1).to_bytes(4, "big") + len(name).to_bytes(2, "big") + name
    assignment += len(partitions).to_bytes(4, "big")
    assignment += b"".join(partition.to_bytes(4, "big") for partition in partitions)
    told = sync_response.SyncGroupResponse(
        throttle_time=NO_TIME,
        error_code=ErrorCode.none,
        protocol_type=None,
        protocol_name=None,
        assignment=assignment + (-1).to_bytes(4, "big", signed=True),
    )
    wire.broker_sends(response(told))
    wire.forwarded()
    wire.answered()


def member(first: Wire, number: int, group: str, *partitions: int) -> Wire:
    """A connection to the coordinator, with a member that is assigned partitions."""
    made = wire(first, number, "node-9")
    assert joins(made, group, f"{group}-{number}") == 0
    syncs(made, group, *partitions, member=f"{group}-{number}")
    return made


def fetches(wire: Wire, topic: str = "t") -> int:
    """Fetch partition 0; the error code that the client sees."""
    wire.client_sends(fetch(topic))
    wire.broker_sends(fetched({topic: TEN}))
    wire.forwarded()
    frames = wire.answered()
    if not frames:  # all refused: the answer comes later
        wire.wait(0.5)
        frames = wire.answered()
    return fetch_errors(frames[0])[topic]


def delivered(wire: Wire, batches: int = 30) -> int:
    """Records that one Fetch brings, of so many batches of ten."""
    wire.client_sends(fetch("t"))
    wire.broker_sends(fetched({"t": TEN * batches}))
    wire.forwarded()
    frames = wire.answered()
    if not frames:  # all withheld: the answer comes later
        wire.wait(1)
        frames = wire.answered()
    return len(records_of(frames[0])["t"]) // len(TEN) * 10


def consumers(wire: Wire) -> int:
    """Consumers that are counted."""
    return wire.shared.gate("t", False, wire.now).state.consumer_count


def names(wire: Wire) -> tuple[str, ...]:
    """The subscriptions that a Fetch of a connection may be for."""
    return wire.session.fetching.reading.subscriptions("t", wire.now)


# -- without a group -----------------------------------------------------------------------------------


@pytest.mark.seed("S1-003", "S1-037")
def test_each_connection_with_one_client_id_to_one_node_is_a_consumer() -> None:
    first = Wire(Bench(max_consumers_per_topic=1))
    wires = [first, *(wire(first, number) for number in range(4))]
    assert [fetches(each) for each in wires] == [0, *[FORBIDDEN] * 4]
    first.session.closed(first.now)
    assert sorted(fetches(each) for each in wires[1:]) == [0, *[FORBIDDEN] * 3]


def test_a_consumer_connected_to_three_leaders_counts_once() -> None:
    first = Wire(Bench(max_consumers_per_topic=1))
    assert [fetches(each) for each in (first, wire(first, 2, "node-2"), wire(first, 3, "node-3"))] == [0] * 3
    assert consumers(first) == 1


def test_a_consumer_without_a_group_is_a_subscription_of_its_own() -> None:
    first = Wire(Bench({"max_subscription_dispatch_rate": 100, "burst_seconds": 0.5}))
    second = wire(first, 2)
    assert (delivered(first), delivered(second)) == (50, 50)
    assert len({names(first), names(second)}) == 2


def test_a_waiting_consumer_gains_nothing_when_another_leaves() -> None:
    first = Wire(Bench({"max_subscription_dispatch_rate": 100, "burst_seconds": 0.5}))
    second = wire(first, 2)
    assert (delivered(first), delivered(second)) == (50, 50)
    first.session.closed(first.now)
    assert delivered(second) == 0


# -- groups --------------------------------------------------------------------------------------------


@pytest.mark.seed("S1-007", "S1-080")
def test_equal_clients_of_two_groups_have_a_rate_each() -> None:
    bench = Bench({"max_subscription_dispatch_rate": 100, "burst_seconds": 0.5})
    a = member(Wire(bench), 1, "a", 0)
    member(a, 2, "b", 0)
    one, two = wire(a, 3), wire(a, 4)
    assert (delivered(one), delivered(two)) == (50, 50)
    assert {names(one), names(two)} == {("a",), ("b",)}
    one.now = two.now = one.now + SECOND // 2
    assert (delivered(one), delivered(two)) == (50, 50)


def test_assigned_partitions_distinguish_groups() -> None:
    a = member(Wire(Bench(max_subscription_dispatch_rate=100)), 1, "a", 1, 2)
    member(a, 2, "b", 0)
    reader = wire(a, 3)
    fetches(reader)  # partition 0
    assert names(reader) == ("b",)


def test_committed_offsets_distinguish_groups() -> None:
    bench = Bench(max_subscription_dispatch_rate=100)
    a = member(Wire(bench), 1, "a", 0)
    b = member(a, 2, "b", 0)
    begins(a, "a", 5)
    begins(b, "b", 0)
    one, two = wire(a, 3, "node-1"), wire(a, 4, "node-2")
    assert (fetches(one), fetches(two)) == (0, 0)  # from offset 0
    assert (names(one), names(two)) == (("b",), ("b",))


def test_a_member_that_starts_at_another_offset_stays_a_member() -> None:
    a = member(Wire(Bench(max_consumers_per_topic=1)), 1, "a", 0)
    begins(a, "a", 5)
    one = wire(a, 3)
    assert fetches(one) == 0
    assert names(one) == ("a",)
    assert consumers(a) == 1


def test_partitions_that_group_leaders_invent_are_not_kept() -> None:
    """A leader may assign anything to its members; beyond 100,000 a member may fetch any partitions."""
    a = Wire(Bench(max_consumers_per_topic=9))

    def known(group: str, partitions: int) -> list[int]:
        assert joins(a, group, group) == 0
        syncs(a, group, *range(partitions), member=group)
        a.take_turns()
        a.answered()
        reader = a.shared.audiences.reader(a.session.connection, "t", a.now)
        return [
            -1 if each.partitions is None else len(each.partitions)
            for each in reader.evidence._members.values()
        ]

    assert known("a", 100_000) == [-1]
    assert known("a", 60_000) == [60_000]
    assert known("b", 60_000) == [60_000, -1]
    assert known("b", 30_000) == [60_000, 30_000]
    assert fetches(wire(a, 2)) == 0


def begins(wire: Wire, group: str, offset: int) -> None:
    """Be told where to begin in partition 0."""
    asked = offsets_request.OffsetFetchRequest(group_id=group, topics=None, require_stable=False)
    wire.client_sends(request(asked))
    partition = offsets_response.OffsetFetchResponsePartition(
        partition_index=i32(0), committed_offset=i64(offset), metadata=None, error_code=ErrorCode.none
    )
    told = offsets_response.OffsetFetchResponse(
        throttle_time=NO_TIME,
        topics=(offsets_response.OffsetFetchResponseTopic(name="t", partitions=(partition,)),),
        error_code=ErrorCode.none,
    )
    wire.broker_sends(response(told))
    wire.forwarded()
    wire.answered()


def test_a_fetcher_from_before_an_assignment_is_not_that_member() -> None:
    bench = Bench(max_consumers_per_topic=2)
    a = member(Wire(bench), 1, "a", 0)
    one = wire(a, 3, "node-1")
    fetches(one)
    for each in (a, one):
        each.now += SECOND
    b = member(a, 2, "b", 0)
    two, three = wire(b, 4, "node-2"), wire(b, 5, "node-1")
    assert (fetches(two), fetches(three)) == (0, 0)
    assert names(one) == ("a",)
    assert names(three) == ("b",)
    # At the second node it may be either: it is held by both, and charged to both.
    assert set(names(two)) == {"a", "b"}


def test_an_ambiguous_fetch_is_limited_by_every_candidate_group() -> None:
    bench = Bench({"max_subscription_dispatch_rate": 100, "burst_seconds": 0.5})
    a = member(Wire(bench), 1, "a", 0)
    member(a, 2, "b", 0)
    readers = [wire(a, 10 + number, f"node-{1 + number % 2}") for number in range(4)]
    for reader in readers:
        reader.client_sends(fetch("t"))
    total = 0
    for reader in readers:
        reader.broker_sends(fetched({"t": TEN * 30}))
        total += sum(len(records_of(frame)["t"]) for frame in reader.answered()) // len(TEN) * 10
    assert total == 50
    assert a.shared.counts["fetch_group_ambiguous"] > 0


def test_idle_members_do_not_hide_a_consumer_without_a_group() -> None:
    a = member(Wire(Bench(max_consumers_per_topic=3)), 1, "g", 0)
    member(a, 2, "g")  # has no partition
    readers = [wire(a, 3), wire(a, 4), wire(a, 5)]
    assert [fetches(reader) for reader in readers] == [0, 0, FORBIDDEN]
    assert consumers(a) == 3


def test_more_fetching_clients_than_members_are_consumers_without_a_group() -> None:
    a = member(Wire(Bench(max_consumers_per_topic=2)), 1, "g", 0)
    readers = [wire(a, number) for number in (3, 4, 5)]
    assert [fetches(reader) for reader in readers] == [0, 0, FORBIDDEN]


def test_a_new_member_does_not_displace_a_consumer_without_a_group() -> None:
    lone = Wire(Bench(max_consumers_per_topic=1))
    assert fetches(lone) == 0
    coordinator = wire(lone, 2, "node-9")
    assert joins(coordinator, "g") == GROUP_FULL
    assert fetches(lone) == 0


def test_partitions_that_move_keep_their_fetchers_attributed_for_a_while() -> None:
    bench = Bench(max_consumers_per_topic=1)
    a = member(Wire(bench), 1, "g", 0)
    reader = wire(a, 3)
    assert fetches(reader) == 0
    reader.now = a.now = a.now + SECOND
    syncs(a, "g", 1, member="g-1")
    assert fetches(reader) == 0, "a Fetch that was under way"
    assert consumers(a) == 1
    reader.now += 60 * SECOND
    assert fetches(reader) == FORBIDDEN, "it does not go on for that member"


def test_a_member_keeps_fetching_for_its_group_after_losing_its_coordinator() -> None:
    bench = Bench({"max_subscription_dispatch_rate": 100, "burst_seconds": 0.5})
    a = member(Wire(bench), 1, "g", 0)
    reader = wire(a, 3)
    assert delivered(reader) == 50
    a.session.closed(a.now)
    assert names(reader) == ("g",)
    assert delivered(reader) == 0


def test_a_connection_that_joined_itself_fetches_for_its_own_member() -> None:
    bench = Bench(max_subscription_dispatch_rate=100)
    one = Wire(bench, node="node-1")
    two = wire(one, 2)
    assert joins(one, "a", "m1") == 0
    assert joins(two, "b", "m2") == 0
    assert (fetches(two), fetches(one)) == (0, 0)
    assert (names(one), names(two)) == (("a",), ("b",))


# -- connections that broke without a word -------------------------------------------------------------


def test_a_silent_fetch_connection_is_replaced_by_its_clients_new_one() -> None:
    old = Wire(Bench(max_consumers_per_topic=1))
    assert fetches(old) == 0
    new = wire(old, 2)
    new.now = old.now + 19 * SECOND
    assert fetches(new) == FORBIDDEN
    new.now = old.now + 20 * SECOND
    assert fetches(new) == 0
    assert consumers(new) == 1
    old.now = new.now
    assert fetches(old) == FORBIDDEN, "when it speaks again it is a newcomer"
    assert fetches(new) == 0


def test_a_silent_fetch_connection_of_a_member_is_replaced_too() -> None:
    a = member(Wire(Bench(max_consumers_per_topic=1)), 1, "g", 0)
    old = wire(a, 3)
    assert fetches(old) == 0
    new = wire(a, 4)
    new.now = old.now + 20 * SECOND
    assert fetches(new) == 0
    assert consumers(a) == 1


def beats(wire: Wire, group: str, member: str) -> int | None:
    """A heartbeat; the error code that the gateway answers itself, None if the broker is asked."""
    entity = beat_request.HeartbeatRequest(group_id=group, generation_id=i32(1), member_id=member)
    wire.client_sends(request(entity))
    if wire.forwarded():
        wire.broker_sends(
            response(beat_response.HeartbeatResponse(throttle_time=NO_TIME, error_code=ErrorCode.none))
        )
        wire.answered()
        return None
    (frame,) = wire.answered()
    entity = decode_response(frame, 12, 4)[1]
    return int(entity.error_code)


@pytest.mark.parametrize("policy", ["max_consumers_per_topic", "max_consumers_per_subscription"])
def test_a_silent_member_is_replaced_by_its_clients_new_one(policy: str) -> None:
    old = Wire(Bench({policy: 1}), node="node-9")
    assert joins(old, "g", "old") == 0
    new = wire(old, 2, "node-9")
    old.now += 10 * SECOND
    assert beats(old, "g", "old") is None
    new.now = old.now + 19 * SECOND
    assert joins(new, "g", "new") == GROUP_FULL
    new.now = old.now + 20 * SECOND
    assert joins(new, "g", "new") == 0
    assert consumers(new) == 1
    # The old one was no half-open connection after all: it has to join again, as a newcomer.
    old.now = new.now
    assert beats(old, "g", "old") == UNKNOWN_MEMBER
    old.client_sends(join("g", "t", member="old"))
    assert join_error(old.answered()[0]) == GROUP_FULL
    assert consumers(new) == 1


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2), st.booleans()), max_size=50), st.integers(0, 2)
)
def test_consumers_are_members_and_fetching_clients_beyond_them(
    steps: list[tuple[int, int, bool]], members: int
) -> None:
    """In any order: as many as fetch from any one node, but never fewer than there are members."""
    first = Wire(Bench(max_consumers_per_topic=100))
    for number in range(members):
        member(first, 900 + number, "g", 0)
    open_ones: dict[tuple[int, int], Wire] = {}
    for number, (client, node, opens) in enumerate(steps):
        key = (client, node)
        if opens and key not in open_ones:
            open_ones[key] = wire(first, number, f"node-{node}")
            assert fetches(open_ones[key]) == 0
        elif not opens and key in open_ones:
            gone = open_ones.pop(key)
            gone.session.closed(gone.now)
        for each in open_ones.values():
            assert fetches(each) == 0
        per_node = [sum(at == each for _, at in open_ones) for each in range(3)]
        assert consumers(first) == max(members, *per_node)


def test_a_consumer_held_by_the_connection_rate_is_not_refused() -> None:
    first = Wire(Bench(max_consumers_per_topic=3, connection_rate_limit=1))
    second = wire(first, 2)
    assert fetches(first) == 0
    second.client_sends(fetch("t"))
    second.broker_sends(fetched({"t": TEN}))
    second.forwarded()
    assert second.answered() == []
    second.wait(0.5)
    (answer,) = second.answered()
    assert fetch_errors(answer) == {"t": 0}
    assert records_of(answer) == {"t": b""}
    assert consumers(first) == 1
    second.wait(0.5)
    assert delivered(second) == 300
    assert consumers(first) == 2


def test_a_member_that_fetches_partitions_in_turn_keeps_its_match() -> None:
    """Clients leave out partitions of which they have records; matching costs more than all else."""
    connection = Wire(Bench()).session.connection
    audience = Audience(connection.identity, "t", Places())
    key = ("a", "m")
    told = audience.members[connection, key] = Membership(connection, key, 0, lambda key: None)
    told.assign(frozenset({0, 1}), 0)
    reader = Reader(connection, audience.identity, "t", audience.members, 1)
    audience.add(reader)
    assert reader.fetches(frozenset({0}))
    audience.settle(1)
    assert reader.match is told
    assert [reader.fetches(frozenset({turn})) for turn in (1, 0, 1)] == [False] * 3
    assert reader.fetches(frozenset({2}))
    audience.members.clear()
    assert not reader.fetches(frozenset({3}))


def test_a_topic_no_longer_fetched_is_released() -> None:
    first = Wire(Bench(max_consumers_per_topic=1))
    other = Wire(Bench(), first.shared, peer="10.0.0.2:1")
    assert (fetches(first, "t"), fetches(other, "t")) == (0, FORBIDDEN)
    *_, release = first.shared.releases[first.session.connection]
    idle_ns = first.shared.limits.producer_idle_ns
    at_once(release(first.now))
    at_once(release(first.now + idle_ns + 1))  # its last Fetch named the topic
    assert fetches(other, "t") == FORBIDDEN
    assert fetches(first, "u") == 0
    at_once(release(first.now))
    at_once(release(first.now + idle_ns))
    assert fetches(other, "t") == FORBIDDEN
    at_once(release(first.now + idle_ns + 1))
    assert fetches(other, "t") == 0
    assert fetches(first, "t") == FORBIDDEN


def test_a_refused_consumer_takes_no_place_on_an_abandoned_topic() -> None:
    first = Wire(Bench(max_consumers_per_topic=1))
    other = Wire(Bench(), first.shared, peer="10.0.0.2:1")
    assert (fetches(first, "t"), fetches(other, "t")) == (0, FORBIDDEN)
    assert fetches(other, "u") == 0
    first.session.closed(first.now)
    assert fetches(other, "u") == 0
    assert consumers(other) == 0
    assert fetches(other, "t") == 0
