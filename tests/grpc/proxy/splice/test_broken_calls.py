"""Clients that break the rules of one call while the gateway holds it: the gateway resets that call."""

import pytest
from tests.bench import SECOND
from tests.grpc.proxy.splice.oracle import gate, service
from tests.grpc.proxy.splice.oracle.raw import assert_serves, block, call, headers, opened
from tests.grpc.proxy.splice.oracle.reshape import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    HAS_PRIORITY,
    HEADERS,
    RST_STREAM,
    WINDOW_UPDATE,
    frame,
)

from sluicegate_grpc.proxy.splice import Limits

PROTOCOL_ERROR, FLOW_CONTROL_ERROR, STREAM_CLOSED, ENHANCE_YOUR_CALM = 1, 3, 5, 11
BEGUN = headers(3)
"""A publish, of which the gate waits for the message."""
SHORT = headers(3, service.PUBLISH, ("content-length", "7"))


def update(amount: int) -> bytes:
    return frame(WINDOW_UPDATE, 0, 3, amount.to_bytes(4))


BROKEN = {
    "a window opened by nothing": (BEGUN + update(0), PROTOCOL_ERROR),
    "a window opened by nothing twice": (BEGUN + update(0) * 2, PROTOCOL_ERROR),
    "a window opened too far": (BEGUN + update(2**31 - 1), FLOW_CONTROL_ERROR),
    "a window opened one byte too far": (BEGUN + update(2**31 - 65_535), FLOW_CONTROL_ERROR),
    "a window opened too far in steps": (BEGUN + update(2**30) * 2, FLOW_CONTROL_ERROR),
    "headers twice": (BEGUN + headers(3), PROTOCOL_ERROR),
    "trailers with pseudo-headers": (BEGUN + headers(3, end=True), PROTOCOL_ERROR),
    "trailers that do not end it": (
        BEGUN + frame(HEADERS, END_HEADERS, 3, b"\0\1a\1b"),
        PROTOCOL_ERROR,
    ),
    "less than its length": (SHORT + frame(DATA, END_STREAM, 3, bytes(6)), PROTOCOL_ERROR),
    "more than its length": (SHORT + frame(DATA, 0, 3, bytes(4)) * 2, PROTOCOL_ERROR),
}


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("apart", [False, True])
def test_a_call_that_breaks_the_protocol_is_reset_alone(name: str, apart: bool) -> None:
    sent, code = BROKEN[name]
    client = opened(gate.shared())
    at = len(SHORT if sent.startswith(SHORT) else BEGUN)

    client.send(*((sent[:at], sent[at:]) if apart else (sent,)))

    assert client.resets(3) == [code]
    assert client.wire.closed is None
    assert 3 not in client.server.seen
    assert client.front.counts["malformed_calls"] == 1
    assert client.wire.session.held_bytes == 0
    assert_serves(client, 5)


def test_a_held_call_may_have_the_largest_window() -> None:
    client = opened(gate.shared()).send(BEGUN, update(2**31 - 1 - 65_535))

    assert client.resets(3) == []
    assert "malformed_calls" not in client.front.counts


def test_a_publish_whose_client_is_a_flood_leaves_the_line() -> None:
    """Other clients of its topic would wait behind it for seconds, though its connection has ended."""
    shared = gate.shared(limits=Limits(resets=1))
    message = service.publish(gate.SLOW, 2, b"payload")
    other = opened(shared).send(*(call(stream, message) for stream in (3, 5, 7)))
    client = opened(shared).send(BEGUN + update(0))
    assert client.wire.closed is None

    client.send(call(5, message, service.PUBLISH, ("content-length", "7")))

    assert client.goaway == ENHANCE_YOUR_CALM
    other.send(call(9, message))
    assert 9 not in other.server.seen
    other.wire.pass_time(SECOND // 2)
    other.settle()
    assert 9 in other.server.seen


def test_headers_on_a_stream_that_its_client_has_reset_end_the_connection() -> None:
    client = opened(gate.shared()).send(BEGUN, frame(RST_STREAM, 0, 3, bytes(4)), headers(3))
    assert client.wire.closed is not None
    assert client.goaway == STREAM_CLOSED


def test_a_stream_that_depends_on_itself_ends_the_connection() -> None:
    priority = (3).to_bytes(4) + b"\x0f"
    flags = END_HEADERS | HAS_PRIORITY
    client = opened(gate.shared()).send(frame(HEADERS, flags, 3, priority + block(service.OTHER)))
    assert client.wire.closed is not None
    assert client.goaway == PROTOCOL_ERROR


def test_incomplete_headers_count_against_the_budget() -> None:
    client = opened(gate.shared())
    budget = client.front.services.budget
    content = block(service.OTHER)
    client.send(frame(HEADERS, 0, 3, content[:9]), frame(CONTINUATION, 0, 3, content[9:20]))
    assert budget.used == client.wire.session.held_bytes == 9 + 9 + 9 + 11
    client.send(frame(CONTINUATION, END_HEADERS, 3, content[20:]))
    assert budget.used == client.wire.session.held_bytes == 0

    client.send(frame(HEADERS, 0, 5, content[:9]))
    budget.limit = 100
    client.send(frame(CONTINUATION, 0, 5, bytes(100)))
    assert client.wire.closed is not None
    assert client.wire.closed.counter == "buffer_budget_used_up"
    client.wire.hang_up()
    assert budget.used == 0
