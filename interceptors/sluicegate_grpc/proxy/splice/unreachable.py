"""Answers clients whose broker is unreachable: each request fails with UNAVAILABLE.

A connection that is just closed says the same to a client, but not which broker is meant. Once a request was
answered the connection ends, so that the next one probes the broker again.
"""

from dataclasses import dataclass, field

from sluicegate.broker import Close, Command, PauseReading, ToClient, WakeAt
from sluicegate.model import CloseReason, ConnectionClose
from sluicegate_grpc.proxy.splice.blocks import ending
from sluicegate_grpc.proxy.splice.connection_limits import Limits
from sluicegate_grpc.proxy.splice.frames import (
    ACK,
    CONTINUATION,
    END_HEADERS,
    END_STREAM,
    HEAD,
    HEADERS,
    PING,
    SETTINGS,
    STREAM_MASK,
    ErrorCode,
    WireError,
    frame,
    goaway,
    malformed,
    read_head,
    rst_stream,
)
from sluicegate_grpc.proxy.splice.settings import greeting
from sluicegate_grpc.semantics.status import UNAVAILABLE, Refusal

_PATIENCE_NS = 5_000_000_000
"""How long a client that asks for nothing is kept."""


@dataclass(slots=True, eq=False)
class UnreachableBroker:
    """Answers one client in place of a broker."""

    text: str
    """The status text of its requests."""
    limits: Limits
    """What its clients may do."""
    is_greeted: bool
    """True if SETTINGS were sent to the client already."""
    _data: bytes = b""
    _last: int = 0
    _out: list[bytes] = field(default_factory=list)
    _until_ns: int = 0

    @property
    def buffered_bytes(self) -> int:
        """Bytes of a partial frame."""
        return len(self._data)

    def begin(self, data: bytes, now_ns: int) -> list[Command]:
        """Answer what the client has sent so far.

        :param data: without the preface.
        """
        if not self.is_greeted:
            self._out.append(greeting(self.limits))
        self._until_ns = now_ns + _PATIENCE_NS
        return [WakeAt(self._until_ns), *self.receive(data)]

    def receive(self, data: bytes) -> list[Command]:
        """Answer what the client sends."""
        data, at = self._data + data, 0
        try:
            while len(data) - at >= HEAD:
                high, low, kind, flags, stream = read_head(data, at)
                stop = at + HEAD + (high << 8 | low)
                if stop - at - HEAD > self.limits.frame_bytes:
                    raise malformed("a frame that is too large", ErrorCode.FRAME_SIZE_ERROR)
                if stop > len(data):
                    break
                self._frame(kind, flags, stream & STREAM_MASK, data[at + HEAD : stop])
                at = stop
        except WireError as error:
            return self._end(error.code, error.counter, str(error))
        self._data = data[at:]
        if self._last:
            return self._end(ErrorCode.NO_ERROR, ConnectionClose.UPSTREAM_UNREACHABLE, self.text)
        return self._take()

    def wake(self, now_ns: int) -> list[Command]:
        """Close a client without requests."""
        if now_ns < self._until_ns:
            return [WakeAt(self._until_ns)]
        return self._end(ErrorCode.NO_ERROR, ConnectionClose.UPSTREAM_UNREACHABLE, self.text)

    def _frame(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == SETTINGS and not flags & ACK:
            self._out.append(frame(SETTINGS, ACK, 0))
        elif kind == PING and not flags & ACK:
            self._out.append(frame(PING, ACK, 0, payload))
        elif kind in (HEADERS, CONTINUATION) and flags & END_HEADERS and stream > self._last:
            self._last = stream
            self._out.append(ending(stream, Refusal(UNAVAILABLE, self.text), alone=True))
            if kind == CONTINUATION or not flags & END_STREAM:
                # RFC 9113 section 8.1: the response is whole, and the rest of the request is not wanted.
                self._out.append(rst_stream(stream, ErrorCode.NO_ERROR))

    def _end(self, code: ErrorCode, counter: CloseReason, text: str) -> list[Command]:
        self._out.append(goaway(self._last, code, text))
        # Read until the client hangs up: a reset could overtake the answer.
        return [*self._take(), PauseReading(), Close(counter, text)]

    def _take(self) -> list[Command]:
        out, self._out = self._out, []
        return [ToClient(b"".join(out))] if out else []
