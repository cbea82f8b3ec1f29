"""An idempotent producer repeats a refused batch because its connection broke before the refusal came."""

from tests.kafka.session.messages import batch, outcome, produce, produced, publish, topics_of
from tests.kafka.session.wire import Bench, Wire

from sluicegate.model import PolicyValue

POLICY_VIOLATION = 44
REJECT: dict[str, PolicyValue] = {"max_publish_rate": 10, "on_limit.max_publish_rate": "reject"}


def sent(sequence: int, *values: bytes, correlation_id: int = 1) -> bytes:
    """A Produce request of an idempotent producer."""
    return produce({"t": batch(*values, producer_id=5, sequence=sequence)}, correlation_id=correlation_id)


def test_a_refused_batch_is_refused_again_after_later_batches_took_its_numbers() -> None:
    wire = Wire(Bench(REJECT), software="")
    publish(wire, {"t": batch(*[b"x"] * 9, producer_id=5, sequence=0)})
    refused = sent(9, b"a", b"b")
    wire.client_sends(refused)
    # Behind it, and already under way: it goes on as number 9.
    wire.client_sends(sent(11, b"c", correlation_id=2))
    assert [topics_of(frame) for frame in wire.forwarded()] == [["t"]]
    wire.broker_sends(produced("t", correlation_id=2))
    wire.session.closed(wire.now)

    again = Wire(Bench(), wire.shared, peer="10.0.0.1:5001", software="")
    again.now = wire.now + 2_000_000_000  # the rate would let it pass now, and the broker take it for `c`
    again.client_sends(refused)
    assert again.forwarded() == []
    (answer,) = again.answered()
    assert outcome(answer)["t", 0][0] == POLICY_VIOLATION
    # What comes behind still gets the right numbers: 11 was stored as 9, so 12 is 10.
    again.client_sends(sent(12, b"d", correlation_id=3))
    assert again.forwarded() == [sent(10, b"d", correlation_id=3)[4:]]


def test_a_refused_batch_may_pass_if_no_batch_took_its_numbers() -> None:
    wire = Wire(Bench(REJECT))
    publish(wire, {"t": batch(*[b"x"] * 9, producer_id=5, sequence=0)})
    refused = sent(9, b"a", b"b")
    wire.client_sends(refused)
    wire.answered()
    wire.now += 2_000_000_000
    wire.client_sends(refused)
    assert wire.forwarded() == [refused[4:]]
