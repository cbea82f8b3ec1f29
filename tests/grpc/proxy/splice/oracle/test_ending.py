"""A gateway that ends sends GOAWAY (RFC 9113 section 6.8) and lets calls end that are under way."""

from tests.bench import START
from tests.grpc.proxy.splice.oracle import gate, service
from tests.grpc.proxy.splice.oracle.raw import HELLO, Raw, call, headers
from tests.grpc.proxy.splice.oracle.reshape import DATA, END_STREAM, GOAWAY, frame

from sluicegate_grpc.proxy.splice import GrpcSession

NO_ERROR = 0


def end(of: Raw) -> None:
    """What the relay does again and again while the gateway ends."""
    session = of.wire.session
    assert isinstance(session, GrpcSession)
    of.wire.carry_out(session.ending(of.wire.now))
    of.settle()


def goaways(of: Raw) -> list[tuple[int, int]]:
    """Last stream and code of each GOAWAY that the client got."""
    return [
        (int.from_bytes(found.payload[:4]), int.from_bytes(found.payload[4:8]))
        for found in of.got
        if found.type == GOAWAY
    ]


def test_a_client_without_calls_gets_goaway_and_is_closed() -> None:
    of = Raw().send(HELLO)
    end(of)
    assert goaways(of) == [(0, NO_ERROR)]
    assert of.wire.closed is not None


def test_a_call_in_progress_is_answered_and_new_ones_are_ignored() -> None:
    of = Raw().send(HELLO, headers(1, service.OTHER))
    end(of)
    assert goaways(of) == [(1, NO_ERROR)]
    assert of.wire.closed is None
    of.send(call(3, b"new", service.OTHER), frame(DATA, END_STREAM, 1, b"the rest"))
    assert set(of.server.seen) == {1}
    of.answer(1)
    assert of.is_answered(1)
    end(of)
    assert goaways(of) == [(1, NO_ERROR)], "told once"
    assert of.wire.closed is not None


def test_a_silent_client_is_closed_without_goaway() -> None:
    session = gate.session(gate.shared())
    (only,) = session.ending(START)
    assert type(only).__name__ == "Close"
    session.closed(START)
