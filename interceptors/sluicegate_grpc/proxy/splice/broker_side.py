"""Handles the broker's frames (RFC 9113 section 6)."""

from sluicegate_grpc.proxy.splice.blocks import NO_TABLE
from sluicegate_grpc.proxy.splice.calling import Calling
from sluicegate_grpc.proxy.splice.connection_state import Connection
from sluicegate_grpc.proxy.splice.delivering import Delivering
from sluicegate_grpc.proxy.splice.ended_calls import Refusals
from sluicegate_grpc.proxy.splice.frames import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEAD,
    HEADERS,
    RST_STREAM,
    SETTINGS,
    STREAM_MASK,
    WINDOW_UPDATE,
    WireError,
    header_frames,
)
from sluicegate_grpc.proxy.splice.responses import Responses
from sluicegate_grpc.proxy.splice.sides import Block, Side
from sluicegate_grpc.proxy.splice.watcher import Watcher


class BrokerSide(Side):
    """The frames of one client's broker.

    :param connection: the client's.
    :param calling: handles streams that the broker ends.
    :param responses: handles responses.
    :param refusals: knows the calls that were reset.
    """

    def __init__(
        self, connection: Connection, calling: Calling, responses: Responses, refusals: Refusals
    ) -> None:
        super().__init__(connection, connection.down)
        self._calling = calling
        self._calls = calling.policed.calls
        self._responses = responses
        self._open = connection.streams.ids
        self._looked_at = connection.down.watched
        self._refusals = refusals
        self._client_settings = connection.client_settings
        self._life = connection.life
        self._owes_update = False
        """True until the client is told that there is no table: that block reached no client."""
        handlers = {
            DATA: self._data,
            HEADERS: self.headers,
            CONTINUATION: self.continuation,
            SETTINGS: connection.broker_settings.frame,
            RST_STREAM: self._reset,
            GOAWAY: self._goaway,
            WINDOW_UPDATE: self._window,
        }
        self._frames.hand_to(handlers, lambda *frame: None, marked=END_STREAM)

    def _data(self, data: bytes, at: int, stop: int, flags: int, stream: int, now_ns: int) -> None:
        """A DATA frame of a stream that is read, that has no window, or that ends."""
        watcher = self._responses.watchers.get(stream)
        if watcher is not None:
            watcher.data(data, at, stop, flags, now_ns)
            if flags & END_STREAM and self._responses.watchers.pop(stream, None) is not None:
                watcher.breaks_off(now_ns)
        elif stream in self._refusals.cancelled:
            size = stop - at - HEAD
            self._refusals.discard_response(at, stop, stream, size=size, end=bool(flags & END_STREAM))
        # An empty frame needs no window: it passes, unless bytes of its stream wait before it.
        elif stop - at > HEAD or stream in self._looked_at:
            self._frames.waits(data, at, stop, flags, stream)
        if flags & END_STREAM:
            self._calling.over(stream, now_ns, reset=False)

    def headers(self, data: bytes, at: int, stop: int, flags: int, stream: int, now_ns: int) -> None:
        """Response headers or trailers; most of them need no handling."""
        # <hot> Runs twice for every response.
        if flags & END_STREAM:
            self._open.discard(stream)
        looked_at = stream in self._looked_at or stream in self._calls or self._owes_update
        if looked_at or not flags & END_HEADERS:
            super().headers(data, at, stop, flags, stream, now_ns)

    def block(
        self, data: bytes, at: int, stop: int, block: bytes, flags: int, stream: int, now_ns: int
    ) -> None:
        """Response headers or trailers in one frame."""
        if self._owes_update:
            self._owes_update = False
            frames = header_frames(stream, NO_TABLE + block, end=bool(flags & END_STREAM))
            self._frames.cut(at, stop)
            if self._watched(frames, block, flags, stream, now_ns):
                self._frames.insert(frames)
            return
        if not self._watched(data[at:stop], block, flags, stream, now_ns):
            self._frames.cut(at, stop)

    def apart(self, block: Block, stream: int, now_ns: int) -> None:
        """Response headers or trailers in several frames."""
        if self._watched(block.frames, block.content, block.flags, stream, now_ns):
            self._frames.insert(block.frames)

    def _watched(self, frames: bytes, block: bytes, flags: int, stream: int, now_ns: int) -> bool:
        """Headers of a watched stream; True if they pass at once."""
        end = bool(flags & END_STREAM)
        if stream in self._refusals.cancelled:
            self._owes_update = self._client_settings.waits_for_update
            self._refusals.discard_response(0, 0, stream, size=0, end=end)
            return False
        call = self._calls.get(stream)
        if call is not None:
            call.has_response = True
        watcher = self._responses.watchers.get(stream)
        if watcher is not None and not end:
            watcher.head(block)
        if not end:
            return not self._frames.is_behind(frames, stream, end=False)
        self._calling.over(stream, now_ns, reset=False)
        if watcher is not None:
            # Before its end is handled: one whose messages still wait puts itself back.
            del self._responses.watchers[stream]
            if not self._ended(watcher, block, frames, now_ns):
                return False
        if self._frames.is_behind(frames, stream, end=True):
            return False
        self._frames.over(stream)
        return True

    @staticmethod
    def _ended(watcher: Watcher, block: bytes, frames: bytes, now_ns: int) -> bool:
        """The end of a watched response; True if it passes unchanged."""
        try:
            return watcher.trailers(block, frames, now_ns)
        except WireError:  # the response is unreadable
            watcher.ended(now_ns, by_client=False)
            raise

    # -- other frames ---------------------------------------------------------------------------------

    def _reset(self, data: bytes, at: int, stop: int, flags: int, stream: int, now_ns: int) -> None:
        if stream in self._refusals.cancelled:
            self._refusals.discard_response(at, stop, stream, size=0, end=True)
            return
        watcher = self._responses.watchers.get(stream)
        if isinstance(watcher, Delivering) and watcher.is_ending:
            # RFC 9113 section 8.1: the rest of the request is not wanted; the response must not be discarded.
            self._frames.cut(at, stop)
            return
        self._calling.over(stream, now_ns, reset=True)
        self._responses.reset(stream, now_ns, by_client=False)

    def _goaway(self, data: bytes, at: int, stop: int, flags: int, stream: int, now_ns: int) -> None:
        """Drop streams above the last id of a GOAWAY, which the client repeats elsewhere."""
        if stop - at >= HEAD + 8:
            last = int.from_bytes(data[at + HEAD : at + HEAD + 4], "big") & STREAM_MASK
            # The broker has not seen them, so nothing that was decided for them may stay charged or open.
            for late in [each for each in self._calls if each > last]:
                self._calling.over(late, now_ns, reset=True)
            lowest = self._life.last_stream(last)
            if lowest != last:
                self._frames.replace(at + HEAD, at + HEAD + 4, lowest.to_bytes(4, "big"))

    def _window(self, data: bytes, at: int, stop: int, flags: int, stream: int, now_ns: int) -> None:
        if stream in self._refusals.cancelled:  # its client may have forgotten it, and take this for an error
            self._frames.cut(at, stop)
        else:
            self.window(data, at, stop, stream)
