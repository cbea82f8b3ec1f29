"""Many small frames take about as much memory as the gateway accounts for."""

import tracemalloc

from tests.bench import START
from tests.grpc.proxy.splice.oracle import gate, service
from tests.grpc.proxy.splice.oracle.raw import HELLO, headers
from tests.grpc.proxy.splice.oracle.reshape import DATA, SETTINGS, frame

from sluicegate_grpc.proxy.splice import GrpcSession, Shared

COUNT = 20_000


def opened(front: Shared) -> GrpcSession:
    """A session on which frames of both sides have come."""
    session = gate.session(front)
    session.receive_client(HELLO, START)
    session.receive_upstream(frame(SETTINGS, 0, 0, b"\0\4" + (2**30).to_bytes(4)), START)
    return session


def test_a_message_in_frames_of_one_byte() -> None:
    front = gate.shared()
    session = opened(front)
    message = service.message((3, bytes(2 * COUNT)), (1, gate.SMALL), (2, 1))  # decided once all is there
    session.receive_client(headers(1), START)
    tracemalloc.start()
    try:
        for at in range(0, COUNT, 1_000):
            session.receive_client(
                b"".join(frame(DATA, 0, 1, message[here : here + 1]) for here in range(at, at + 1_000)), START
            )
        kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert session.held_bytes >= COUNT
    assert kept < 10 * session.held_bytes
