"""The limit of unacknowledged messages of one consumer."""

from functools import partial

import pytest
from tests.pulsar.session.deliveries import (
    EXCLUSIVE,
    ack,
    attach,
    delivered,
    flow,
    message,
    permits,
    state_of,
    success,
)
from tests.pulsar.session.messages import frame
from tests.pulsar.session.wire import Bench, Wire

LIMIT = 5


def limited(kind: int = EXCLUSIVE, limit: int = LIMIT) -> Wire:
    """A connection with a consumer that has to acknowledge now and then."""
    wire = Wire(Bench(max_unacked_messages_per_consumer=limit))
    attach(wire, kind=kind)
    return wire


def unacked(wire: Wire) -> int:
    """Messages that the gateway counts."""
    return sum(state_of(wire).subscription("sub").unacked.values())


@pytest.mark.seed("S1-090")
def test_at_the_limit_delivery_waits_for_acknowledgements() -> None:
    wire = limited()
    wire.broker_sends(*[message(number) for number in range(10)])
    assert delivered(wire) == [0, 1, 2, 3, 4]
    wire.wait(10)
    assert delivered(wire) == []
    wire.client_sends(ack(1))
    assert delivered(wire) == [5]
    wire.client_sends(ack(0, 2))
    assert delivered(wire) == [6, 7]
    wire.client_sends(ack(7, cumulative=True))
    assert delivered(wire) == [8, 9]
    wire.client_sends(ack(9, cumulative=True))
    assert (unacked(wire), wire.shared.budget.used) == (0, 0)


def test_acknowledgements_reach_the_broker_unchanged() -> None:
    wire = limited()
    wire.broker_sends(message(1))
    frames = [ack(1), ack(1), ack(9), ack(1, 2, cumulative=True)]
    wire.client_sends(*frames)
    assert wire.sent_up() == frames


@pytest.mark.parametrize("cumulative", [True, False])
def test_thousands_of_unacknowledged_messages_count_as_memory(cumulative: bool) -> None:
    wire = limited(limit=50_000)
    budget = wire.shared.budget
    for number in range(0, 2_500, 100):
        wire.broker_sends(*[message(entry) for entry in range(number, number + 100)])
        wire.take_turns()
    assert (budget.used, wire.session.held_bytes) == (240_000, 240_000)
    wire.client_sends(ack(1_999, cumulative=True) if cumulative else ack(*range(1_600)))
    assert budget.used == 0
    wire.broker_sends(*[message(entry) for entry in range(2_500, 2_700)])
    wire.client_sends(frame("redeliver_unacknowledged_messages", consumer_id=0))
    for number in range(3_000, 5_000, 100):
        wire.broker_sends(*[message(entry) for entry in range(number, number + 100)])
        wire.take_turns()
    assert budget.used == 240_000
    wire.client_sends(frame("close_consumer", consumer_id=0, request_id=9))
    assert (budget.used, wire.session.held_bytes) == (0, 0)


def test_batches_count_each_message() -> None:
    wire = limited(limit=10)
    wire.broker_sends(message(1, num_messages_in_batch=6), message(2, num_messages_in_batch=4), message(3))
    assert delivered(wire) == [1, 2]
    wire.client_sends(ack(1, left=(0b11111,)))
    assert delivered(wire) == [3]
    assert unacked(wire) == 10
    wire.client_sends(ack(1, left=(0b1,)))
    assert unacked(wire) == 6
    wire.client_sends(ack(2, cumulative=True, left=(0b1000,)))
    assert unacked(wire) == 2
    wire.client_sends(ack(2))
    assert unacked(wire) == 1


def test_a_batch_over_the_limit_passes_when_nothing_is_unacknowledged() -> None:
    wire = limited()
    wire.broker_sends(message(1), message(2, num_messages_in_batch=50))
    assert delivered(wire) == [1]
    wire.client_sends(ack(1))
    assert delivered(wire) == [2]


def test_acknowledged_messages_of_a_batch_do_not_count() -> None:
    wire = limited()
    wire.broker_sends(message(1, command={"ack_set": [0b11]}, num_messages_in_batch=5))
    assert unacked(wire) == 2


def test_redelivered_messages_count_once() -> None:
    wire = limited()
    wire.broker_sends(*[message(number) for number in range(3)])
    wire.client_sends(frame("redeliver_unacknowledged_messages", consumer_id=0))
    assert unacked(wire) == 0
    wire.broker_sends(*[message(number) for number in range(5)])
    wire.broker_sends(message(2))
    assert unacked(wire) == 5
    assert delivered(wire) == [0, 1, 2, 0, 1, 2, 3, 4, 2]


def test_messages_awaiting_redelivery_do_not_count() -> None:
    wire = limited(kind=1)
    wire.broker_sends(*[message(number) for number in range(6)])
    assert delivered(wire) == [0, 1, 2, 3, 4]
    nacked = [{"ledger_id": 7, "entry_id": 2}]
    wire.client_sends(frame("redeliver_unacknowledged_messages", consumer_id=0, message_ids=nacked))
    assert delivered(wire) == [5]
    assert unacked(wire) == 5


def test_at_the_limit_no_permits_are_forwarded() -> None:
    wire = limited()
    wire.client_sends(flow(10))
    assert permits(wire) == 10
    wire.broker_sends(*[message(number) for number in range(6)])
    wire.client_sends(flow(3))
    assert permits(wire) == 0
    wire.client_sends(ack(0))
    (permit,) = [each for each in wire.forwarded() if each.HasField("flow")]
    assert permit.flow.message_permits == 3


def test_each_consumer_has_its_own_count() -> None:
    wire = limited()
    attach(wire, 1, 2)
    wire.broker_sends(*[message(number) for number in range(6)])
    wire.broker_sends(*[message(10 + number, consumer_id=1) for number in range(6)])
    assert delivered(wire) == [0, 1, 2, 3, 4, 10, 11, 12, 13, 14]
    wire.client_sends(ack(12, consumer_id=1))
    assert delivered(wire) == [15]


def test_a_detached_consumer_leaves_no_count_behind() -> None:
    wire = limited()
    wire.broker_sends(*[message(number) for number in range(5)])
    wire.client_sends(frame("close_consumer", consumer_id=0, request_id=2))
    wire.broker_sends(success(2))
    assert unacked(wire) == 0


def test_a_limit_lifted_and_set_again_starts_from_zero() -> None:
    bench = Bench(max_unacked_messages_per_consumer=LIMIT)
    wire = Wire(bench)
    attach(wire)
    wire.broker_sends(*[message(number) for number in range(8)])
    bench.set()
    wire.broker_sends(message(8))
    assert delivered(wire) == list(range(9))
    bench.set(max_unacked_messages_per_consumer=LIMIT)
    wire.broker_sends(*[message(number) for number in range(10, 18)])
    assert delivered(wire) == list(range(10, 15))


def test_memory_of_offered_versions_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluicegate_pulsar.session.consumers.unacked._MAX_ENTRIES", 10)
    options = {"mode.max_unacked_messages_per_consumer": "observe"}
    wire = Wire(Bench(options, max_unacked_messages_per_consumer=LIMIT))
    attach(wire)
    wire.broker_sends(*[message(number) for number in range(100)])
    assert delivered(wire) == list(range(100))
    assert unacked(wire) == 10
    wire.client_sends(ack(3, 99))
    assert unacked(wire) == 9


def test_messages_acknowledged_without_a_limit_do_not_count_later() -> None:
    bench = Bench(max_unacked_messages_per_consumer=LIMIT)
    wire = Wire(bench)
    attach(wire)
    wire.broker_sends(message(1))
    bench.set()
    wire.client_sends(ack(1))
    bench.set(max_unacked_messages_per_consumer=LIMIT)
    wire.broker_sends(message(2, num_messages_in_batch=50))
    assert delivered(wire) == [1, 2]


def test_a_repeated_chunk_counts_once() -> None:
    """Pulsar sends one twice at times."""
    wire = Wire(Bench(fixed_delivery_delay=1_000, max_unacked_messages_per_consumer=10))
    attach(wire)
    wire.client_sends(flow(1_000))
    for number in range(8):
        first, second = 2 * number, 2 * number + 1
        chunk = partial(message, num_chunks_from_msg=2, uuid=f"u{number}")
        wire.broker_sends(chunk(first, chunk_id=0), chunk(second, chunk_id=1), chunk(second, chunk_id=1))
        wire.wait(31)
        assert delivered(wire) == [first, second, second]
        wire.client_sends(ack(first, second), ack(second))

    assert unacked(wire) == 0
