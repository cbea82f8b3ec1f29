"""A client that writes what it likes, a session, and a real server behind it."""

from hpack import Decoder, Encoder
from tests.grpc.proxy.splice.oracle import gate, service
from tests.grpc.proxy.splice.oracle.peers import Peer
from tests.grpc.proxy.splice.oracle.reshape import (
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    Cutter,
    Frame,
    frame,
)
from tests.grpc.proxy.splice.oracle.wire import Wire

from sluicegate_grpc.proxy.splice import Shared

HELLO = PREFACE + frame(SETTINGS)


def block(path: str, *more: tuple[str, str]) -> bytes:
    """A request's header block, of which no decoder keeps anything."""
    encoder = Encoder()
    encoder.header_table_size = 0
    return encoder.encode(service.request(path, *more))


def headers(stream: int, path: str = service.PUBLISH, *more: tuple[str, str], end: bool = False) -> bytes:
    """A request's HEADERS frame."""
    return frame(HEADERS, END_HEADERS | (END_STREAM if end else 0), stream, block(path, *more))


def call(stream: int, message: bytes, path: str = service.PUBLISH, *more: tuple[str, str]) -> bytes:
    """A whole unary request."""
    return headers(stream, path, *more) + frame(DATA, END_STREAM, stream, message)


class Raw:
    """A session between a client whose bytes the test writes itself and an h2 server.

    The client may break HTTP/2 as it likes; the server raises at any breach that the session lets through.

    :param front: of the session; a new one if there is none.
    """

    def __init__(self, front: Shared | None = None) -> None:
        self.front = front or gate.shared()
        self.wire = Wire(gate.session(self.front))
        self.got: list[Frame] = []
        """Frames that the client got."""
        self._cutter = Cutter(has_preface=False)
        self.wire.to_gate.take(self.wire.to_gate.size)

    @property
    def server(self) -> Peer:
        return self.wire.server

    def send(self, *parts: bytes) -> "Raw":
        """Have these bytes arrive, each part as one read; and have the server's arrive, as far as they go."""
        wire = self.wire
        wire.client.take_output()  # the h2 client of the wire does not take part
        for part in parts:
            if wire.closed is None:
                wire.to_gate.put(part)
                wire.move(wire.to_gate, len(part))
                while wire.closed is None and wire.take_turn():
                    pass
                self.settle()
        return self

    def settle(self) -> None:
        """Have everything arrive but what the client gets, which is kept."""
        wire = self.wire
        while wire.to_server.size or wire.from_server.size:
            wire.move(wire.to_server, wire.to_server.size)
            wire.collect()
            if wire.closed is not None:
                wire.server.receive(wire.to_server.take(wire.to_server.size))
                break
            wire.move(wire.from_server, wire.from_server.size)
        self.got += self._cutter.feed(wire.to_client.take(wire.to_client.size))

    def answer(self, stream: int, response: bytes = b"") -> None:
        """Have the server answer a call with success."""
        h2 = self.server.h2
        h2.send_headers(stream, service.ANSWER)
        h2.send_data(stream, response)
        h2.send_headers(stream, service.OK, end_stream=True)
        self.wire.collect()
        self.settle()

    @property
    def goaway(self) -> int | None:
        """The code of the GOAWAY that the client got."""
        codes = [int.from_bytes(found.payload[4:8]) for found in self.got if found.type == GOAWAY]
        return codes[-1] if codes else None

    def resets(self, stream: int) -> list[int]:
        """Codes of the RST_STREAM frames of one stream."""
        return [int.from_bytes(f.payload) for f in self._of(stream, {RST_STREAM})]

    def is_answered(self, stream: int) -> bool:
        """Whether the client got headers that end a stream."""
        return any(found.flags & END_STREAM for found in self._of(stream, {HEADERS}))

    def status(self, stream: int) -> str:
        """`grpc-status` of a call that the gateway has refused."""
        (found,) = self._of(stream, {HEADERS})
        return {str(name): str(value) for name, value in Decoder().decode(found.payload)}["grpc-status"]

    def _of(self, stream: int, types: set[int]) -> list[Frame]:
        return [found for found in self.got if found.stream == stream and found.type in types]


def opened(front: Shared | None = None) -> Raw:
    """A client that has made one call."""
    client = Raw(front).send(HELLO)
    assert_serves(client, 1)
    return client


def assert_serves(client: Raw, stream: int) -> None:
    """A call goes through, and is answered."""
    client.send(call(stream, service.publish(gate.FREE, 1, b"payload")))
    assert client.server.seen[stream].is_ended
    client.answer(stream)
    assert client.is_answered(stream)
