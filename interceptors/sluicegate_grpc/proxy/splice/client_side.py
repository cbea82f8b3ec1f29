"""Handles the client's frames (RFC 9113 section 6)."""

from sluicegate_grpc.events import GrpcEvent
from sluicegate_grpc.proxy.splice.blocks import NO_TABLE, TooLargeError
from sluicegate_grpc.proxy.splice.calling import Calling
from sluicegate_grpc.proxy.splice.connection_state import Connection
from sluicegate_grpc.proxy.splice.ended_calls import Refusals
from sluicegate_grpc.proxy.splice.floods import ControlFloods
from sluicegate_grpc.proxy.splice.frames import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    HAS_PRIORITY,
    HEAD,
    HEADERS,
    PADDED,
    PING,
    PUSH_PROMISE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    ErrorCode,
    goaway,
    header_frames,
    idle,
    malformed,
)
from sluicegate_grpc.proxy.splice.life import Event, State
from sluicegate_grpc.proxy.splice.requests import Fault, Request, RequestReader
from sluicegate_grpc.proxy.splice.shared import Address
from sluicegate_grpc.proxy.splice.sides import Block, Side
from sluicegate_grpc.semantics.status import PERMISSION_DENIED, Refusal

_OPEN = State.OPEN
_SHAPE = END_HEADERS | PADDED | HAS_PRIORITY
"""Flags that say what a HEADERS frame holds besides its block."""
_WINDOWS_EACH = 64
"""WINDOW_UPDATE frames that a client may send for what came from the broker in one read."""


class ClientSide(Side):
    """The frames of one client.

    :param connection: the client's.
    :param calling: handles messages.
    :param refusals: ends calls.
    :param floods: bounds control frames.
    """

    def __init__(
        self, connection: Connection, calling: Calling, refusals: Refusals, floods: ControlFloods
    ) -> None:
        super().__init__(connection, connection.up)
        self._calling = calling
        self._policed = calling.policed
        self._refusals = refusals
        self._streams = connection.streams
        settings, shared = connection.client_settings, connection.shared
        most = shared.limits.header_list_bytes
        self._reader = RequestReader(shared.rules, most, settings, connection.up.charge)
        self._floods = floods
        self._broker_settings = connection.broker_settings
        self._life = connection.life
        self._bound: tuple[Address, ...] = ()
        """The broker that the connection leads to, if that was up to the client."""
        handlers = {
            DATA: calling.data,
            HEADERS: self.headers,
            CONTINUATION: self.continuation,
            SETTINGS: settings.frame,
            PING: self._ping,
            RST_STREAM: self._reset,
            WINDOW_UPDATE: self._window,
            PUSH_PROMISE: self._push,
        }
        self._frames.hand_to(handlers, self._other)

    # -- requests -------------------------------------------------------------------------------------

    def headers(self, data: bytes, at: int, stop: int, flags: int, stream: int, now_ns: int) -> None:
        """A HEADERS frame."""
        # <hot> Nearly every request is one frame with its headers alone.
        if stream and flags & _SHAPE == END_HEADERS:
            self.block(data, at, stop, data[at + HEAD : stop], flags, stream, now_ns)
        else:
            super().headers(data, at, stop, flags, stream, now_ns)

    def block(
        self, data: bytes, at: int, stop: int, block: bytes, flags: int, stream: int, now_ns: int
    ) -> None:
        """A request's headers in one frame, or its trailers."""
        # <hot> Runs for every request.
        reader = self._reader  # what it would look up first, without the call
        request = reader.known.get(block) if reader.blocks.is_plain else None
        if request is None:
            request = reader.read(block)
        policed = self._policed
        must_reencode = self._broker_settings.waits_for_update
        passes = stream > policed.last and stream & 1 and request.is_plain
        streams = self._streams
        passes = passes and not must_reencode and self._life.state is _OPEN
        if passes and (len(streams.ids) < streams.room or streams.grow()):
            policed.opened(stream, request, at, stop, flags)
            return
        self._frames.cut(at, stop)
        frames = data[at:stop]
        if request.block or must_reencode:
            frames = self._anew(request, block, flags, stream)
        self._headers(request, frames, flags, stream, now_ns)

    def apart(self, block: Block, stream: int, now_ns: int) -> None:
        """A request's headers in several frames."""
        request = self._reader.read(block.content)
        frames = block.frames
        if request.block or self._broker_settings.waits_for_update:
            frames = self._anew(request, block.content, block.flags, stream)
        self._headers(request, frames, block.flags, stream, now_ns)

    @staticmethod
    def _anew(request: Request, block: bytes, flags: int, stream: int) -> bytes:
        """Encode headers again for a broker that cannot read the client's encoding."""
        return header_frames(stream, request.block or NO_TABLE + block, end=bool(flags & END_STREAM))

    def _headers(self, request: Request, frames: bytes, flags: int, stream: int, now_ns: int) -> None:
        """Headers that were taken out of the bytes read."""
        if stream <= self._policed.last:
            self._trailers(request, frames, flags, stream, now_ns)
            return
        if not stream & 1:
            raise malformed(f"a request on stream {stream}")
        state, late = self._life.state, self._life.refusal
        if state is State.REFUSING and late is not None:
            self._policed.skip(stream)
            self._refusals.refuse(stream, late, has_ended=bool(flags & END_STREAM))
            return
        if state is State.DRAINING or self._leads_elsewhere(request.broker):
            self._send_elsewhere(flags, stream)
            return
        if len(self._streams.ids) >= self._streams.room and not self._streams.grow():
            self._one_too_many(flags, stream, now_ns)
            return
        fault = request.fault or (self._misrouted(request.broker) if request.broker else None)
        if fault is None:
            self._policed.opened_apart(stream, request, frames, flags)
            return
        self._policed.skip(stream)
        self._shared.count(fault.event)
        has_ended = bool(flags & END_STREAM)
        if fault.refusal is None:
            self._refusals.resets.count(now_ns)
            self._refusals.broken(stream, ErrorCode.PROTOCOL_ERROR, has_ended=has_ended)
        else:
            self._refusals.refuse(stream, fault.refusal, has_ended=has_ended)

    def _one_too_many(self, flags: int, stream: int, now_ns: int) -> None:
        """Refuse a request over the stream limit; its client may retry it (RFC 9113 section 8.7)."""
        if self._streams.is_full:  # it ignores the announced limit, so it may ignore any other
            self._refusals.resets.count(now_ns)
        self._policed.skip(stream)
        self._shared.count(GrpcEvent.STREAM_REFUSED)
        self._refusals.broken(stream, ErrorCode.REFUSED_STREAM, has_ended=bool(flags & END_STREAM))

    def _misrouted(self, broker: str) -> Fault | None:
        """Why a request for a broker is refused."""
        if self._shared.brokers.route(broker) is not None:
            return None
        text = f"Broker {broker[:200]} is not known to this gateway."
        return Fault(GrpcEvent.FORBIDDEN_BROKER_REFUSED, Refusal(PERMISSION_DENIED, text))

    def _leads_elsewhere(self, broker: str) -> bool:
        """Whether the connection leads to another broker than a request asks for."""
        addresses = self._shared.brokers.route(broker) if broker and self._bound else None
        return addresses is not None and addresses != self._bound

    def _send_elsewhere(self, flags: int, stream: int) -> None:
        """Have the client repeat a request for another broker on another connection.

        RFC 9113 section 6.8: the client may do so at once, as nothing was done for this stream and those
        after it; what else is under way here goes on. A client with one connection for all brokers makes a
        new one at each change.
        """
        if self.goes_away("this connection leads to another broker"):
            self._shared.count(GrpcEvent.SENT_TO_ANOTHER_CONNECTION)
        self._policed.skip(stream)
        if not flags & END_STREAM:
            self._refusals.discard_rest(stream)

    def leads_to(self, addresses: tuple[Address, ...]) -> None:
        """The client could choose the broker of this connection."""
        self._bound = addresses

    def goes_away(self, why: str) -> bool:
        """Have the client make new requests on another connection.

        :return: False if GOAWAY was sent before.
        """
        if not self._life.happens(Event.GOAWAY):
            return False
        last = self._life.last_stream(self._policed.last)
        self._frames.back.insert(goaway(last, ErrorCode.NO_ERROR, why))
        return True

    def _trailers(self, request: Request, frames: bytes, flags: int, stream: int, now_ns: int) -> None:
        """More headers on a stream: the request's end."""
        policed = self._policed
        if request.is_too_large and stream not in policed.marks and stream not in policed.calls:
            raise TooLargeError(self._shared.limits.header_list_bytes)
        if stream in policed.marks or stream in policed.calls:
            # RFC 9113 section 8.1: they end the request, and have no pseudo-headers.
            are_wellformed = bool(flags & END_STREAM) and request.are_trailers
            if self._calling.trailers(
                self._frames.read.data, frames, stream, now_ns, are_wellformed=are_wellformed
            ):
                self._frames.insert(frames)
        elif stream in self._refusals.discarded:
            if flags & END_STREAM:
                self._refusals.forget(stream)
        elif stream > policed.highest:
            text = f"headers on stream {stream}, which is closed"
            raise malformed(text, ErrorCode.STREAM_CLOSED)
        elif not self._frames.is_behind(frames, stream, end=bool(flags & END_STREAM)):
            self._frames.insert(frames)

    # -- other frames ---------------------------------------------------------------------------------

    def _ping(self, data: bytes, at: int, stop: int, flags: int, stream: int, now_ns: int) -> None:
        # Peers measure the bandwidth with one ping per round trip.
        flood = self._floods.pongs if flags & ACK else self._floods.pings
        flood.count(now_ns, self._frames.back.reads)

    def _reset(self, data: bytes, at: int, stop: int, flags: int, stream: int, now_ns: int) -> None:
        # gRPC clients end a request this way if it was refused early: that does not count.
        if not self._refusals.discarded.get(stream):
            self._refusals.resets.count(now_ns)
        if stop - at != HEAD + 4:
            raise malformed("RST_STREAM of a wrong size", ErrorCode.FRAME_SIZE_ERROR)
        if stream > self._policed.last:
            raise idle(stream)
        self._calling.reset(data, at, stop, stream, now_ns)

    def _window(self, data: bytes, at: int, stop: int, flags: int, stream: int, now_ns: int) -> None:
        # <hot> Runs once or twice for every call.
        windows = self._floods.windows
        windows.left -= 1
        if windows.left < 0:
            windows.renew(now_ns, self._frames.back.reads * _WINDOWS_EACH)
        policed = self._policed
        if stream > policed.highest:
            if stream > policed.last:
                raise idle(stream)
            if not policed.belongs(data, at, stop, stream, now_ns):  # it was refused: no broker heard of it
                self._frames.cut(at, stop)
        elif stream and stream in self._refusals.discarded:
            self._frames.cut(at, stop)
        elif not (stream and policed.belongs(data, at, stop, stream, now_ns)):
            self.window(data, at, stop, stream)

    def _push(self, data: bytes, at: int, stop: int, flags: int, stream: int, now_ns: int) -> None:
        raise malformed("PUSH_PROMISE from a client")

    def _other(self, data: bytes, at: int, stop: int, flags: int, stream: int, now_ns: int) -> None:
        """PRIORITY, GOAWAY and unknown frames pass."""
        self._floods.empty.count(now_ns)
