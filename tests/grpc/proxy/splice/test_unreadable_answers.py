"""Unreadable responses of a broker end the connection, and leave no client counted."""

import pytest
from tests.bench import SECOND, START
from tests.grpc.proxy.splice.oracle import gate, service
from tests.grpc.proxy.splice.oracle.raw import HELLO, call
from tests.grpc.proxy.splice.oracle.reshape import END_HEADERS, END_STREAM, HEADERS, SETTINGS, frame

from sluicegate.broker import Close

MALFORMED = frame(HEADERS, END_HEADERS | END_STREAM, 1, b"\xff" * 9)
"""Trailers whose block breaks off in a number."""


@pytest.mark.parametrize("path", [service.SUBSCRIBE, service.ATTACH])
def test_an_attachment_with_an_unreadable_response_is_released(path: str) -> None:
    front = gate.shared()
    session = gate.session(front)
    session.receive_client(HELLO + call(1, service.message((1, gate.PACED), (2, "x"), (3, "s")), path), START)
    commands = session.receive_upstream(frame(SETTINGS) + MALFORMED, START)
    assert isinstance(commands[-1], Close)
    session.closed(START)
    front.calls.attachments.release_ghosts(START + 31 * SECOND)
    state = front.services.gates.states[gate.PACED]
    assert (len(state.producers), state.consumer_count) == (0, 0)


def test_a_client_without_its_broker_leaves_nothing_behind() -> None:
    front = gate.shared()
    session = gate.session(front, (("b", 1),))
    session.receive_client(HELLO, START)
    session.undialled("refused", START)
    session.receive_client(frame(HEADERS, END_HEADERS, 1, bytes(50))[:30], START)
    assert session.held_bytes == 30
    session.closed(START)
    assert session.held_bytes == 0
