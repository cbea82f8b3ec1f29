"""Faults that policies inject: connections that are closed, responses that cannot be read."""

import pytest
from kio.serial.errors import BufferUnderflow
from tests.chaos.lab import UNTIL, endless_context
from tests.kafka.codec.entities import decode_response
from tests.kafka.session.messages import PRODUCE, batch, fetch, fetched, outcome, produce, produced, topics_of
from tests.kafka.session.wire import Bench, Wire

from sluicegate import chaos
from sluicegate.model import PolicyValue, SessionClose


def bench_of(**policies: PolicyValue) -> Bench:
    """A broker whose topic `t` has faults."""
    bench = Bench(None, [chaos])
    bench.context = endless_context()
    bench.set_topic("t", chaos_until=UNTIL, **policies)
    return bench


def sent(
    topics: list[str], sequence: int = 0, *, correlation_id: int = 1, acks: int = -1, value: bytes = b"x"
) -> bytes:
    """A Produce request of an idempotent producer."""
    batches = {topic: batch(value, producer_id=5, sequence=sequence) for topic in topics}
    return produce(batches, correlation_id=correlation_id, acks=acks)


def assert_broken_off(wire: Wire) -> None:
    assert wire.closed is not None
    assert wire.closed.counter is SessionClose.FAULT_INJECTED
    assert "injected by chaos_kill" in wire.closed.detail


@pytest.mark.parametrize("acks", [0, -1])
def test_a_killed_connection_has_forwarded_nothing_of_what_came_behind(acks: int) -> None:
    wire = Wire(bench_of(chaos_kill="100%"))
    before = sent(["u"], acks=acks)
    wire.client_sends(before + sent(["t"], correlation_id=2, acks=acks) + sent(["u"], 1, correlation_id=3))
    assert_broken_off(wire)
    assert wire.forwarded() == [before[4:]]
    assert wire.answered() == []
    wire.close()
    assert wire.session.held_bytes == 0


def test_a_client_sends_again_what_was_killed_without_a_gap() -> None:
    bench = bench_of(chaos_kill="100%")
    wire = Wire(bench)
    wire.client_sends(sent(["t"]) + sent(["t"], 1, correlation_id=2))
    assert_broken_off(wire)
    assert wire.answered() == []
    wire.close()

    bench.set_topic("t", chaos_kill="0%")
    again = Wire(bench, wire.shared, peer="10.0.0.1:5001")
    both = [sent(["t"]), sent(["t"], 1, correlation_id=2)]
    again.client_sends(*both)
    assert again.forwarded() == [each[4:] for each in both]


def test_what_waits_behind_work_is_not_read_once_the_connection_is_killed() -> None:
    wire = Wire(bench_of(chaos_kill="100%"))
    many = [f"u-{number}" for number in range(30)]
    wire.client_sends(sent([*many, "t"]) + sent(["u-0"], 1, correlation_id=2))
    assert wire.take_turns() > 0
    assert_broken_off(wire)
    assert [topics_of(frame) for frame in wire.forwarded()] == [many]
    wire.close()
    assert wire.session.held_bytes == 0


@pytest.mark.parametrize("topics", [["t"], ["u", "t"]])
def test_a_corrupt_response_has_its_header_and_no_more(topics: list[str]) -> None:
    wire = Wire(bench_of(chaos_corrupt="100%"))
    wire.client_sends(sent(topics, correlation_id=7))
    forwarded = wire.forwarded()
    assert len(forwarded) == len(topics) - 1
    if forwarded:
        wire.broker_sends(produced("u", correlation_id=7))
    (answer,) = wire.answered()
    assert answer[:4] == (7).to_bytes(4)
    with pytest.raises(BufferUnderflow):
        decode_response(answer, PRODUCE, 9)
    assert wire.closed is None


def test_a_corrupt_response_leaves_a_gap_until_its_batch_comes_again() -> None:
    bench = bench_of(chaos_corrupt="100%")
    wire = Wire(bench)
    wire.client_sends(sent(["t"]))
    bench.set_topic("t", chaos_corrupt="0%")
    wire.answered()
    wire.client_sends(sent(["t"], 1, correlation_id=2))
    assert wire.forwarded() == []
    ((code, _),) = outcome(wire.answered()[0]).values()
    assert code == 45  # out of order: the client closes the gap
    wire.client_sends(sent(["t"], correlation_id=3), sent(["t"], 1, correlation_id=4))
    assert len(wire.forwarded()) == 2


def test_a_killed_delivery_does_not_reach_the_consumer() -> None:
    wire = Wire(bench_of(chaos_kill="100%"))
    wire.client_sends(fetch("t"))
    wire.broker_sends(fetched({"t": batch(b"x")}))
    assert_broken_off(wire)
    assert wire.answered() == []
