"""A gateway that shuts down closes a Kafka client between two requests, so that none is in doubt."""

from tests.kafka.session.messages import batch, fetch, fetched, produce, produced
from tests.kafka.session.wire import Bench, Wire


def ends(wire: Wire) -> bool:
    """Whether the client is closed now; it gets nothing else."""
    wire.carry_out(wire.session.ending(wire.now))
    return wire.closed is not None


def test_a_client_without_requests_is_closed_at_once() -> None:
    assert ends(Wire(Bench()))


def test_a_request_that_the_broker_has_is_answered_first() -> None:
    wire = Wire(Bench(max_message_size=50))
    wire.client_sends(produce({"t": batch(b"ok")}, correlation_id=1))
    assert not ends(wire)
    answer = produced("t", correlation_id=1)
    wire.broker_sends(answer[:10])
    assert not ends(wire)
    wire.broker_sends(answer[10:])
    assert ends(wire)
    assert wire.answered() == [answer[4:]]


def test_an_unread_response_is_delivered_whole() -> None:
    wire = Wire(Bench())
    wire.client_sends(fetch("t", correlation_id=1))
    answer = fetched({"t": batch(b"x" * 1000)}, correlation_id=1)
    wire.broker_sends(answer[:500])
    assert not ends(wire)
    wire.broker_sends(answer[500:])
    assert ends(wire)


def test_a_partial_request_is_dropped_as_its_client_sends_it_again() -> None:
    wire = Wire(Bench(max_message_size=50))
    wire.client_sends(produce({"t": batch(b"ok")}, correlation_id=1)[:-3])
    assert wire.session.held_bytes > 0
    assert ends(wire)
    assert wire.session.held_bytes == 0
    assert wire.forwarded() == []


def test_a_held_request_is_forwarded_and_answered_first() -> None:
    wire = Wire(Bench(max_publish_rate=1))
    for number in (1, 2):
        wire.client_sends(produce({"t": batch(b"x")}, correlation_id=number))
        if number == 1:
            wire.broker_sends(produced("t", correlation_id=1))
    assert len(wire.forwarded()) == 1
    wire.answered()
    assert not ends(wire)
    wire.wait(2)
    assert len(wire.forwarded()) == 1
    assert not ends(wire)
    wire.broker_sends(produced("t", correlation_id=2))
    wire.wait(2)
    assert len(wire.answered()) == 1
    assert ends(wire)
