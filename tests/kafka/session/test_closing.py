"""A connection that breaks the protocol is closed after earlier responses have been sent."""

import pytest
from tests.kafka.session.messages import batch, fetch, fetched, outcome, produce
from tests.kafka.session.wire import Bench, Wire

from sluicegate.broker import Close

MALFORMED = produce({"t": batch(b"x")}, correlation_id=9)[:-1] + b"\x7f"
"""A Produce request whose last tagged field does not end."""
REFUSED = produce({"t": batch(b"x" * 50)}, correlation_id=3)
MESSAGE_TOO_LARGE = 10


def assert_closed_last(wire: Wire) -> None:
    """The connection was closed, and by the last command."""
    assert wire.closed is not None
    assert wire.closed.counter == "malformed_request"
    assert isinstance(wire.commands[-1], Close)


def test_a_refusal_is_sent_even_if_the_next_request_is_malformed() -> None:
    wire = Wire(Bench(max_message_size=10))
    wire.client_sends(REFUSED + MALFORMED)
    ((code, _),) = outcome(wire.answered()[0]).values()
    assert code == MESSAGE_TOO_LARGE
    assert_closed_last(wire)


@pytest.mark.parametrize("acks", [0, -1])
def test_no_command_follows_the_close_of_a_held_client(acks: int) -> None:
    wire = Wire(Bench(max_publish_rate=10, max_message_size=10))
    wire.client_sends(produce({"t": batch(*[b"x"] * 25)}, acks=0))
    wire.client_sends(produce({"t": batch(b"y")}, acks=acks, correlation_id=2) + REFUSED + MALFORMED)
    assert wire.closed is None
    wire.wait(3)
    assert_closed_last(wire)
    assert len(wire.answered()) == (acks == 0)  # else it is not its turn yet


def test_no_command_follows_the_close_of_a_client_with_too_many_in_flight() -> None:
    wire = Wire(Bench(max_dispatch_rate=1_000), max_requests_in_flight=2)
    wire.client_sends(fetch("t") + fetch("t", correlation_id=2) + REFUSED + MALFORMED)
    for number in (1, 2):
        wire.broker_sends(fetched({"t": b""}, correlation_id=number))
    assert_closed_last(wire)
