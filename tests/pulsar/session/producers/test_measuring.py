"""A batch that is measured in slices: what happens to its producer meanwhile."""

from tests.pulsar.session.messages import frame, producer, producer_success, receipt, send
from tests.pulsar.session.producers.test_producing_rates import opened, sequences
from tests.pulsar.session.test_slices import batch
from tests.pulsar.session.wire import SECOND, Bench, Wire

from sluicegate_pulsar.codec import pulsar_pb2 as pb

MIB = 1024 * 1024
MESSAGES = 4_500


def measured(sequence_id: int, payload: bytes = b"x") -> bytes:
    """A batch over the limit for one message, which takes three slices."""
    return send(sequence_id, batch(MESSAGES, payload), num_messages_in_batch=MESSAGES)


def used_up(bench: Bench, **options: object) -> Wire:
    """A connection whose producer has used up its rate for a second."""
    wire = opened(bench, "slow", **options)
    wire.client_sends(send(0, b"x", num_messages_in_batch=5_000))
    wire.broker_sends(receipt(0))
    wire.sent_up()
    wire.sent_down()
    return wire


def slow(max_message_size: int = 100) -> Bench:
    bench = Bench()
    bench.set_topic("slow", max_publish_rate=5_000, max_message_size=max_message_size)
    return bench


def test_a_batch_whose_producer_is_closed_meanwhile_is_discarded() -> None:
    wire = used_up(slow())
    wire.client_sends(measured(1))
    wire.broker_sends(frame("close_producer", producer_id=0, request_id=0))
    wire.take_turns()
    wire.client_sends(producer(request_id=2, topic="slow"))
    wire.broker_sends(producer_success(2))
    wire.sent_up()
    wire.client_sends(measured(1))
    wire.take_turns()
    wire.wait(3)
    assert sequences(wire) == [(0, 1)]
    assert wire.shared.budget.used == 0


def test_a_batch_whose_queue_is_cut_meanwhile_does_not_overtake() -> None:
    bench = slow(max_message_size=100_000)
    bench.set_topic("other", max_publish_rate=1)
    bench.budget.limit = 8 * MIB
    wire = used_up(bench, publish_queue={"bytes": 80 * MIB})
    wire.client_sends(*[send(number, bytes(100_000)) for number in range(1, 31)], measured(31, bytes(140)))
    other = Wire(bench, wire.shared, "10.0.0.2:5000")
    other.now = wire.now
    other.client_sends(producer(topic="other"))
    other.broker_sends(producer_success())
    other.client_sends(send(0), *[send(number, bytes(200_000)) for number in range(1, 40)])
    assert wire.shared.counts["publish_queue_full"] > 0
    wire.take_turns()
    wire.wait(5)
    stored = [number for _, number in sequences(wire)]
    assert stored == list(range(1, len(stored) + 1))
    assert len(stored) < 30


def test_a_batch_that_is_measured_when_the_gateway_drains_is_discarded() -> None:
    wire = used_up(slow())
    wire.client_sends(measured(1))
    wire.now += 2 * SECOND
    wire.carry_out(wire.session.ending(wire.now))
    wire.take_turns()
    assert sequences(wire) == []


def test_a_batch_for_which_there_is_no_memory_closes_its_producer_alone() -> None:
    bench = slow()
    wire = opened(bench, "slow", "fast")
    bench.budget.limit = 10_000
    wire.client_sends(measured(0), send(1), send(0, producer_id=1))
    assert wire.closed is None
    assert sequences(wire) == [(1, 0)]
    wire.wait(1.1)
    assert [answer.type for answer in wire.answered()] == [pb.BaseCommand.CLOSE_PRODUCER]
