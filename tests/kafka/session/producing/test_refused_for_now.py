"""What follows a batch that its client is to send again waits for it, though the broker would store it.

A broker without records of a producer takes any first number. Then it would refuse the batch that is sent
again, and the client would store that behind later ones or give it up.
"""

import os

import pytest
from tests.kafka.codec.packing import packed_batch
from tests.kafka.session.messages import batch, outcome, produce, produced
from tests.kafka.session.wire import SECOND, Bench, Wire

from sluicegate_kafka.session.producing.unpacking import Unpacking

NOT_ENOUGH_REPLICAS, OUT_OF_ORDER = 19, 45
TRANSACTIONAL = 16


def sent(sequence: int, *values: bytes, correlation_id: int, attributes: int = 0, acks: int = -1) -> bytes:
    """A Produce request of an idempotent producer."""
    records = batch(*values, producer_id=5, sequence=sequence, attributes=attributes)
    return produce({"t": records}, correlation_id=correlation_id, acks=acks)


def held_for_too_long(software: str, *, attributes: int = 0, acks: int = -1) -> tuple[Wire, bytes]:
    """A connection whose first batch, of records 0 to 19, was not let through, and the batch behind it."""
    bench = Bench(max_publish_rate=1)
    wire = Wire(bench, software=software)
    wire.client_sends(produce({"t": batch(b"x")}))
    wire.client_sends(sent(0, *[b"x"] * 20, correlation_id=2, attributes=attributes, acks=acks))
    bench.set(max_publish_rate=1, burst_seconds=60.0)
    wire.wait(10.1)
    assert len(wire.forwarded()) == 1
    wire.broker_sends(produced("t"))
    assert codes(wire) == ([0, NOT_ENOUGH_REPLICAS] if acks else [0])
    return wire, sent(20, b"y", correlation_id=3, attributes=attributes, acks=acks)


def codes(wire: Wire) -> list[int]:
    """What became of the requests that were answered since the last call."""
    return [code for frame in wire.answered() for code, _ in outcome(frame).values()]


@pytest.mark.parametrize("attributes", [0, TRANSACTIONAL])
def test_what_follows_a_batch_that_was_held_too_long_is_refused_until_that_is_sent_again(
    attributes: int,
) -> None:
    wire, behind = held_for_too_long("apache-kafka-java", attributes=attributes)
    wire.now += 60 * SECOND
    wire.client_sends(behind)
    assert wire.forwarded() == []
    assert codes(wire) == [OUT_OF_ORDER]
    again = sent(0, *[b"x"] * 20, correlation_id=4, attributes=attributes)
    wire.client_sends(again, behind)
    assert wire.forwarded() == [again[4:], behind[4:]]
    assert not wire.shared.client_gaps.by_client


def test_a_client_that_is_renumbered_has_nothing_under_way() -> None:
    wire, behind = held_for_too_long("")
    wire.now += 60 * SECOND
    wire.client_sends(behind)
    assert wire.forwarded() == [behind[4:]]


def test_a_client_that_waits_for_no_answer_sends_nothing_again() -> None:
    wire, behind = held_for_too_long("apache-kafka-java", acks=0)
    wire.now += 60 * SECOND
    wire.client_sends(behind)
    assert wire.forwarded() == [behind[4:]]


def test_what_follows_a_batch_that_could_not_be_inspected_waits_for_it() -> None:
    wire = Wire(Bench(inspect=True))
    large = batch(*(os.urandom(900) for _ in range(40)), producer_id=5, sequence=0)
    wire.client_sends(produce({"t": packed_batch(large, "lz4")}))
    question = wire.asked[-1]
    assert isinstance(question, Unpacking)
    wire.carry_out(wire.session.answered(question, TimeoutError(), wire.now))
    wire.client_sends(sent(40, b"y", correlation_id=2))
    assert wire.forwarded() == []
    assert codes(wire) == [NOT_ENOUGH_REPLICAS, OUT_OF_ORDER]
