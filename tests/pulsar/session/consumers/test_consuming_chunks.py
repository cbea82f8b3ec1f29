"""Chunks of delayed messages reach a consumer in order, whatever order the broker sends them in."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.pulsar.session.deliveries import (
    EXCLUSIVE,
    FAILOVER,
    KEY_SHARED,
    SHARED,
    attach,
    delivered,
    flow,
    message,
    permits,
)
from tests.pulsar.session.messages import TYPES, frame
from tests.pulsar.session.wire import Bench, Wire

DELAY_MS = 1500
LONG_AGO_MS = 10_000


def delayed(kind: int = SHARED, **settings: Any) -> Wire:
    """A consumer of a topic with a fixed delay."""
    wire = Wire(Bench(fixed_delivery_delay=DELAY_MS), **settings)
    attach(wire, kind=kind)
    return wire


def chunk(wire: Wire, number: int, count: int = 4, uuid: str = "m", **metadata: Any) -> bytes:
    """A chunk of a message that is due; its entry id is its number."""
    published = wire.shared.wall_ms(wire.now) - LONG_AGO_MS
    fields: dict[str, Any] = {
        "publish_time": published,
        "uuid": uuid,
        "chunk_id": number,
        "num_chunks_from_msg": count,
    }
    return message(number, **fields | metadata)


def send(wire: Wire, numbers: Sequence[int], **options: Any) -> list[int]:
    """The broker sends chunks one by one; gives those that the client got."""
    found = []
    for number in numbers:
        wire.broker_sends(chunk(wire, number, **options))
        found += delivered(wire)
    return found


@pytest.mark.parametrize("kind", [SHARED, KEY_SHARED])
@pytest.mark.parametrize("order", [[3, 0, 1, 2], [1, 2, 3, 0], [3, 2, 1, 0], [0, 2, 1, 3], [0, 1, 2, 3]])
def test_chunks_wait_for_those_before_them(kind: int, order: list[int]) -> None:
    wire = delayed(kind)
    assert send(wire, order) == [0, 1, 2, 3]
    assert (wire.session.held_bytes, wire.shared.budget.used) == (0, 0)


def test_chunks_that_come_in_one_read_are_put_in_order_and_others_overtake_them() -> None:
    wire = delayed()
    published = wire.shared.wall_ms(wire.now) - LONG_AGO_MS
    wire.broker_sends(
        *[chunk(wire, number) for number in (2, 1)], message(9, publish_time=published), chunk(wire, 0)
    )
    assert delivered(wire) == [9, 0, 1, 2]


def test_a_chunk_that_has_waited_is_withheld_until_it_is_due() -> None:
    wire = delayed()
    now = wire.shared.wall_ms(wire.now)
    assert send(wire, [1, 0], count=2, publish_time=now) == []
    wire.wait(1.4)
    assert delivered(wire) == []
    wire.wait(0.2)
    assert delivered(wire) == [0, 1]
    assert wire.shared.budget.used == 0


@given(st.permutations([(uuid, number) for uuid in "abc" for number in range(4)]))
def test_any_order_of_several_messages(order: list[tuple[str, int]]) -> None:
    wire = delayed()
    got = []
    for uuid, number in order:
        entry = "abc".index(uuid) * 4 + number
        published = wire.shared.wall_ms(wire.now) - LONG_AGO_MS
        fields: dict[str, Any] = {"uuid": uuid, "chunk_id": number, "num_chunks_from_msg": 4}
        wire.broker_sends(message(entry, publish_time=published, **fields))
        got += delivered(wire)
    assert sorted(got) == list(range(12))
    for first in (0, 4, 8):
        assert [entry for entry in got if first <= entry < first + 4] == list(range(first, first + 4))
    assert (wire.session.held_bytes, wire.shared.budget.used) == (0, 0)


def test_chunks_that_wait_for_one_that_never_arrives_are_delivered_in_the_end() -> None:
    """Another consumer may have it, or this one acknowledged it before."""
    wire = delayed()
    assert send(wire, [3, 2]) == []
    wire.wait(29.9)
    assert delivered(wire) == []
    wire.wait(1.1)
    assert delivered(wire) == [2, 3]
    assert wire.shared.counts["chunks_out_of_order"] == 1
    assert wire.shared.budget.used == 0
    assert send(wire, [0, 1]) == [0, 1]


def test_a_message_that_is_delivered_again_begins_with_its_first_chunk() -> None:
    wire = delayed()
    assert send(wire, [0, 1, 2]) == [0, 1, 2]
    assert send(wire, [1]) == [1]  # the client has it already, and can tell
    assert send(wire, [0, 2, 1, 3]) == [0, 1, 2, 3]
    assert send(wire, [3, 0, 1, 2]) == [0, 1, 2, 3]


def test_a_chunk_that_waits_and_is_sent_again_is_delivered_once() -> None:
    wire = delayed()
    assert send(wire, [1, 1, 0, 2, 3]) == [0, 1, 2, 3]
    assert wire.shared.budget.used == 0


@pytest.mark.parametrize(
    "order", [[(1, 1), (1, 9), (0, 0)], [(1, 1), (0, 0), (1, 9)], [(0, 0), (1, 9), (1, 1)]]
)
def test_a_chunk_that_is_stored_twice_is_delivered_twice(order: list[tuple[int, int]]) -> None:
    """Else the one that is not delivered is never acknowledged."""
    wire = delayed()
    got = []
    for number, entry in order:
        published = wire.shared.wall_ms(wire.now) - LONG_AGO_MS
        fields: dict[str, Any] = {"uuid": "m", "chunk_id": number, "num_chunks_from_msg": 3}
        wire.broker_sends(message(entry, publish_time=published, **fields))
        got += delivered(wire)
    assert (got[0], sorted(got[1:])) == (0, [1, 9])
    assert wire.shared.budget.used == 0


@pytest.mark.parametrize("window", [1, 2, 1_000])
def test_the_broker_gets_a_permit_for_the_chunk_that_is_missing(window: int) -> None:
    """A client with one place would wait for good; in the end the broker has what the client granted."""
    wire = delayed()
    wire.client_sends(flow(window))
    have = permits(wire)
    for number in (3, 2, 1):
        wire.broker_sends(chunk(wire, number))
        have += permits(wire) - 1
        assert have == window
    wire.broker_sends(chunk(wire, 0))
    have += permits(wire) - 1
    assert delivered(wire) == [0, 1, 2, 3]
    wire.client_sends(flow(4))
    assert have + permits(wire) == window


def test_what_waits_is_forgotten_when_the_broker_sends_all_again() -> None:
    wire = delayed()
    wire.client_sends(flow(4))
    assert permits(wire) == 4
    assert send(wire, [3]) == []
    wire.client_sends(frame("redeliver_unacknowledged_messages", consumer_id=0))
    assert wire.shared.budget.used == 0
    assert send(wire, [0, 1, 2, 3]) == [0, 1, 2, 3]


def test_what_waits_is_forgotten_with_its_consumer() -> None:
    wire = delayed()
    send(wire, [3])
    wire.client_sends(frame("close_consumer", consumer_id=0, request_id=5))
    assert (wire.session.held_bytes, wire.shared.budget.used) == (0, 0)


def test_withheld_messages_are_delivered_once_the_delay_is_removed() -> None:
    bench = Bench(fixed_delivery_delay=DELAY_MS)
    wire = Wire(bench)
    attach(wire, kind=SHARED)
    assert send(wire, [2]) == []
    bench.set()
    assert send(wire, [0, 1, 3]) == [0, 1, 2, 3]


def test_a_consumer_without_room_for_more_is_reopened() -> None:
    wire = delayed(consumer_buffer=20_000)
    published = wire.shared.wall_ms(wire.now) - LONG_AGO_MS
    for number in (3, 2, 1):
        fields: dict[str, Any] = {"uuid": "m", "chunk_id": number, "num_chunks_from_msg": 4}
        wire.broker_sends(message(number, bytes(9_000), publish_time=published, **fields))
    assert [TYPES.Name(answer.type) for answer in wire.answered()] == ["CLOSE_CONSUMER"]
    assert (wire.session.held_bytes, wire.shared.budget.used) == (0, 0)


def test_small_chunks_count_with_the_memory_that_they_take() -> None:
    wire = delayed(consumer_buffer=20_000)
    for number in range(100, 0, -1):
        wire.broker_sends(chunk(wire, number, count=101))
        if wire.answered():
            break
    assert 40 < number < 60


def test_of_too_many_incomplete_messages_the_oldest_is_forwarded() -> None:
    """To restart the consumer would lead here again."""
    wire = delayed()
    for number in range(1_200):
        assert send(wire, [0], uuid=f"m{number}") == [0]
    assert send(wire, [1], uuid="m1199") == [1]
    for number in range(1_001):
        wire.broker_sends(chunk(wire, 1, uuid=f"waits{number}"))
    wire.wait(2)
    assert delivered(wire) == [1]
    assert wire.shared.counts["chunks_out_of_order"] == 1
    for number in (999, 1_000):
        assert send(wire, [0], uuid=f"waits{number}") == [0, 1]


def test_each_chunk_extends_the_time_for_those_that_wait_behind_it() -> None:
    """Chunks of several MiB may take long over a slow connection."""
    wire = delayed()
    assert send(wire, [3]) == []
    for number in (0, 1):
        wire.wait(29)
        assert send(wire, [number]) == [number]
    wire.wait(29)
    assert send(wire, [2]) == [2, 3]


@pytest.mark.parametrize("chunk_id", [-5, 4, 7])
def test_an_id_out_of_range_passes_and_changes_nothing(chunk_id: int) -> None:
    wire = delayed()
    wire.broker_sends(chunk(wire, 9, chunk_id=chunk_id))
    assert delivered(wire) == [9]
    assert send(wire, [2, 0, 1, 3]) == [0, 1, 2, 3]
    assert (wire.session.held_bytes, wire.shared.budget.used) == (0, 0)


def test_chunks_that_disagree_on_their_number_hold_no_memory() -> None:
    wire = delayed()
    assert send(wire, [7], count=10) == []
    assert send(wire, [0, 1, 2, 3]) == [0, 1, 2, 3, 7]
    assert (wire.session.held_bytes, wire.shared.budget.used) == (0, 0)


def test_an_overdue_chunk_needs_no_room_behind_withheld_messages() -> None:
    wire = Wire(Bench(fixed_delivery_delay=60_000), consumer_buffer=20_000)
    attach(wire, kind=SHARED)
    now = wire.shared.wall_ms(wire.now)
    wire.broker_sends(*[message(number, bytes(9_000), publish_time=now) for number in (8, 9)])
    fields: dict[str, Any] = {"uuid": "m", "chunk_id": 1, "num_chunks_from_msg": 2}
    wire.broker_sends(message(1, bytes(9_000), publish_time=now - 60_000, **fields))
    wire.wait(61)
    assert delivered(wire) == [8, 9, 1]
    assert (wire.session.held_bytes, wire.shared.budget.used) == (0, 0)


@pytest.mark.parametrize("kind", [EXCLUSIVE, FAILOVER])
def test_where_the_broker_keeps_the_order_nothing_waits(kind: int) -> None:
    wire = delayed(kind)
    assert send(wire, [1, 2]) == [1, 2]
