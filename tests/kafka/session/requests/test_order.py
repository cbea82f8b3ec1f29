"""Responses reach the client whole and in order, in whatever pieces they come."""

import pytest
from tests.kafka.session.messages import batch, fetch, fetched, join, outcome, produce, produced, publish
from tests.kafka.session.wire import Bench, Wire

from sluicegate_kafka.session.shared.listing import ListGroups

POLICY_VIOLATION = 44
TOO_LARGE = {"t": batch(b"x" * 51, b"y")}


def correlation_ids(wire: Wire) -> list[int]:
    """Which requests were answered since the last call."""
    return [int.from_bytes(answer[:4], "big") for answer in wire.answered()]


@pytest.mark.parametrize("piece", [8, 20, 45])
def test_a_refusal_does_not_interrupt_a_response_in_pieces(piece: int) -> None:
    wire = Wire(Bench(max_message_size=50))
    publish(wire, {"t": batch(b"ok")})  # the first answer to a producer is read whole
    wire.client_sends(produce({"t": batch(b"ok")}, correlation_id=1))
    wire.client_sends(produce(TOO_LARGE, correlation_id=2))
    answer = produced("t", correlation_id=1)
    wire.broker_sends(answer[:piece])
    assert wire.downstream == answer[:piece]
    wire.broker_sends(answer[piece:])
    first, second = wire.answered()
    assert first == answer[4:]
    assert outcome(second)["t", 0][0] == POLICY_VIOLATION


def test_a_refusal_during_a_response_waits_for_its_end() -> None:
    wire = Wire(Bench(max_message_size=50))
    wire.client_sends(fetch("t", correlation_id=1))
    answer = fetched({"t": batch(b"x" * 1000)}, correlation_id=1)
    wire.broker_sends(answer[:500])
    wire.client_sends(produce(TOO_LARGE, correlation_id=2))
    assert wire.downstream == answer[:500]
    wire.client_sends(produce({"t": batch(b"ok")}, correlation_id=3))
    wire.broker_sends(answer[500:] + produced("t", correlation_id=3))
    assert correlation_ids(wire) == [1, 2, 3]


def test_the_broker_is_asked_once_however_often_a_held_answer_wakes_the_session() -> None:
    wire = Wire(Bench(max_dispatch_rate=1, max_subscriptions_per_topic=1))
    wire.client_sends(fetch("t", correlation_id=1, max_wait_ms=500))
    wire.broker_sends(fetched({"t": batch(*[b"x"] * 3)}, correlation_id=1))
    wire.client_sends(fetch("t", correlation_id=2, max_wait_ms=500))
    wire.broker_sends(fetched({"t": batch(b"x")}, correlation_id=2))
    wire.client_sends(join("g", "t", correlation_id=3))
    wire.wait(1)
    assert correlation_ids(wire) == [1, 2]
    assert wire.asked == [ListGroups()]
