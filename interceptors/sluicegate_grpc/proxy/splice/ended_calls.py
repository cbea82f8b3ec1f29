"""Calls that the gateway ends itself, and late frames of their streams from either side."""

from sluicegate_grpc.proxy.splice.blocks import ending
from sluicegate_grpc.proxy.splice.call import Call
from sluicegate_grpc.proxy.splice.connection_state import Connection
from sluicegate_grpc.proxy.splice.floods import Flood
from sluicegate_grpc.proxy.splice.frame_stream import FrameStream
from sluicegate_grpc.proxy.splice.frames import END_STREAM, HEAD, ErrorCode, rst_stream
from sluicegate_grpc.semantics.status import Refusal

_MAX_STREAMS = 4_096


class Refusals:
    """The refused calls of one connection."""

    __slots__ = ("_down", "_streams", "_up", "cancelled", "discarded", "resets")

    def __init__(self, connection: Connection) -> None:
        self._up = connection.up
        self._down = connection.down
        self._streams = connection.streams
        self.resets = Flood("resets", connection.shared.limits.resets)
        """Streams that the client resets, or makes the gateway reset."""
        self.discarded: dict[int, bool] = {}
        """Streams whose remaining client frames are discarded; True if the client was not asked to stop."""
        self.cancelled: dict[int, bool] = {}
        """Streams that were reset towards the broker, whose late frames are discarded."""

    def refuse(self, call: Call, refusal: Refusal) -> None:
        """Answer a call with trailers only (gRPC over HTTP/2, Responses)."""
        stream = call.stream
        self.answer(stream, refusal, alone=not call.is_answered)
        if not call.has_ended:
            # RFC 9113 section 8.1: the response is complete, and the rest of the request is not needed.
            self.reset(stream, ErrorCode.NO_ERROR)
        if call.opening.is_up:
            self.cancel_upstream(stream)

    def answer(self, stream: int, refusal: Refusal, *, alone: bool) -> None:
        """Send the trailers of a refused call."""
        self._streams.ended(stream)
        self._down.over(stream)
        self._down.insert(ending(stream, refusal, alone=alone))

    def reset(self, stream: int, code: ErrorCode) -> None:
        """Reset a stream towards the client."""
        self._streams.ended(stream)
        self._down.insert(rst_stream(stream, code))
        self.discard_rest(stream)

    def cancel_upstream(self, stream: int) -> None:
        """Reset a stream towards the broker."""
        self._up.insert(rst_stream(stream, ErrorCode.CANCEL))
        self.cancelled[stream] = True
        _watch(self._down, self.cancelled, stream)

    def discard_rest(self, stream: int, *, is_open: bool = False) -> None:
        """Discard the client's remaining frames of a stream.

        :param is_open: True if the client may continue to send, so that its window must be refilled.
        """
        self.discarded[stream] = is_open
        _watch(self._up, self.discarded, stream)

    def discard_data(self, at: int, stop: int, flags: int, stream: int) -> None:
        """Discard a DATA frame of the client, and refill its window."""
        self._up.cut(at, stop)
        self._up.grant(0, stop - at - HEAD)
        if flags & END_STREAM:
            self.forget(stream)
        elif self.discarded.get(stream):
            self._up.grant(stream, stop - at - HEAD)

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


def _watch(frames: FrameStream, streams: dict[int, bool], stream: int) -> None:
    """Look at the late frames of a stream; the oldest of too many streams is left alone."""
    frames.watched.add(stream)
    if len(streams) > _MAX_STREAMS:
        oldest = next(iter(streams))
        del streams[oldest]
        frames.watched.discard(oldest)
