"""Calls that the gateway ends itself, and late frames of their streams from either side."""

from sluicegate_grpc.events import GrpcClose
from sluicegate_grpc.proxy.splice.blocks import ending
from sluicegate_grpc.proxy.splice.connection_state import Connection
from sluicegate_grpc.proxy.splice.floods import Flood
from sluicegate_grpc.proxy.splice.frame_stream import FrameStream
from sluicegate_grpc.proxy.splice.frames import END_STREAM, HEAD, ErrorCode, rst_stream
from sluicegate_grpc.semantics.status import Refusal

_MAX_STREAMS = 4_096
_REST_BYTES = 1 << 20
"""What a client may still send of a request that was answered, before its stream is reset."""


class Refusals:
    """The refused calls of one connection."""

    __slots__ = ("_down", "_streams", "_up", "cancelled", "discarded", "resets")

    def __init__(self, connection: Connection) -> None:
        self._up = connection.up
        self._down = connection.down
        self._streams = connection.streams
        self.resets = Flood(GrpcClose.RESETS_FLOOD, connection.shared.limits.resets)
        """Streams that the client resets, or makes the gateway reset."""
        self.discarded: dict[int, int] = {}
        """Streams whose remaining client frames are discarded, and the bytes after which each is reset.

        0 for a stream whose client was told to stop.
        """
        self.cancelled: dict[int, int] = {}
        """Streams that were reset towards the broker, whose late frames are discarded; 0 for each."""

    def refuse(
        self,
        stream: int,
        refusal: Refusal,
        *,
        has_ended: bool,
        is_up: bool = False,
        alone: bool = True,
        owed: int | None = 0,
    ) -> None:
        """Answer a request with trailers only (gRPC over HTTP/2, Responses).

        :param has_ended: True if the client has ended it.
        :param is_up: True if the broker knows of it.
        :param alone: as for `blocks.ending`.
        :param owed: credit on the stream that the client has still to get for its body, in bytes; None if
            that is not known, as some of it was forwarded.
        """
        self._answer(stream, refusal, alone=alone)
        if not has_ended:
            self._complete(stream, owed)
        if is_up:
            self.cancel_upstream(stream)

    def broken(self, stream: int, code: ErrorCode, *, has_ended: bool, is_up: bool = False) -> None:
        """Reset a call that breaks the protocol, or a limit of it. Parameters as for `refuse`."""
        self.reset(stream, code)
        if has_ended:
            self.forget(stream)
        if is_up:
            self.cancel_upstream(stream)

    def break_off(self, stream: int, refusal: Refusal, *, alone: bool, is_over: bool) -> None:
        """End a response that is under way.

        :param alone: as for `blocks.ending`.
        :param is_over: True if the broker has ended it.
        """
        self._answer(stream, refusal, alone=alone)
        if not is_over:
            self.cancel_upstream(stream)

    def _complete(self, stream: int, owed: int | None) -> None:
        """The response is complete, and the rest of the request is not needed (RFC 9113 section 8.1)."""
        if owed is None:
            self.reset(stream, ErrorCode.NO_ERROR)
        else:
            # A reset at once makes curl 7.88 fail if it meets the body on its way.
            self.discard_rest(stream, is_open=True)
            self._up.grant(stream, owed)

    def _answer(self, stream: int, refusal: Refusal, *, alone: bool) -> None:
        """Send the trailers of a refused call."""
        self._streams.ended(stream)
        # No byte of the broker's response may follow the trailers.
        self._down.over(stream)
        self._down.insert(ending(stream, refusal, alone=alone))

    def reset(self, stream: int, code: ErrorCode) -> None:
        """Reset a stream towards the client."""
        self._streams.ended(stream)
        self._up.revoke(stream)
        self._down.insert(rst_stream(stream, code))
        self.discard_rest(stream)

    def cancel_upstream(self, stream: int) -> None:
        """Reset a stream towards the broker."""
        self._up.insert(rst_stream(stream, ErrorCode.CANCEL))
        self.cancelled[stream] = 0
        _watch(self._down, self.cancelled, stream)

    def discard_rest(self, stream: int, *, is_open: bool = False) -> None:
        """Discard the client's remaining frames of a stream.

        :param is_open: True if the client may continue to send, so that its window must be refilled.
        """
        self.discarded[stream] = _REST_BYTES if is_open else 0
        _watch(self._up, self.discarded, stream)

    def discard_data(self, at: int, stop: int, flags: int, stream: int, now_ns: int) -> None:
        """Discard a DATA frame of the client, and refill its window; reset a client that sends too much."""
        size = stop - at - HEAD
        self._up.cut(at, stop)
        self._up.grant(0, size)  # or its other calls would stop for want of the connection's window
        left = self.discarded.get(stream, 0)
        if flags & END_STREAM:
            self.forget(stream)
        elif left > size:
            self.discarded[stream] = left - size
            self._up.grant(stream, size)
        elif left:
            self.resets.count(now_ns)
            self.reset(stream, ErrorCode.NO_ERROR)

    def forget(self, stream: int) -> bool:
        """Stop discarding, as the client has ended the stream; True if it was refused before."""
        if stream not in self.discarded:
            return False
        del self.discarded[stream]
        self._up.watched.discard(stream)
        return True

    def discard_response(self, at: int, stop: int, stream: int, *, size: int, end: bool) -> None:
        """Discard a frame of the broker for a stream that was reset.

        :param size: bytes of the flow-control window that it used.
        """
        self._down.cut(at, stop)
        self._down.grant(0, size)
        if end:
            self.cancelled.pop(stream, None)
            self._down.watched.discard(stream)


def _watch(frames: FrameStream, streams: dict[int, int], stream: int) -> None:
    """Look at the late frames of a stream; the oldest of too many streams is left alone."""
    frames.watched.add(stream)
    # A peer need not end a stream that was reset, so nothing tells when the last frame has come.
    if len(streams) > _MAX_STREAMS:
        oldest = next(iter(streams))
        del streams[oldest]
        frames.watched.discard(oldest)
