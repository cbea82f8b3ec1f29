"""Calls that the gateway ends itself, and late frames of their streams from either side."""

from sluicegate_grpc.proxy.splice.blocks import trailers
from sluicegate_grpc.proxy.splice.call import Call
from sluicegate_grpc.proxy.splice.connection_state import Connection
from sluicegate_grpc.proxy.splice.floods import Flood
from sluicegate_grpc.proxy.splice.frames import END_STREAM, HEAD, ErrorCode, header_frames, rst_stream
from sluicegate_grpc.semantics.status import Refusal

_MAX_DEAD = 4_096


class Refusals:
    """The refused calls of one connection."""

    __slots__ = ("_down", "_streams", "_up", "dead", "gone", "resets")

    def __init__(self, connection: Connection) -> None:
        self._up = connection.up
        self._down = connection.down
        self._streams = connection.streams
        self.resets = Flood("resets", connection.shared.limits.resets)
        """Streams that the client resets, or makes the gate reset."""
        self.dead: dict[int, bool] = {}
        """Streams of which the client may still send something; True if it was not told to stop."""
        self.gone: dict[int, None] = {}
        """Streams of which the broker may still send something."""

    def refuse(self, call: Call, refusal: Refusal) -> None:
        """Answer a call with trailers only (gRPC over HTTP/2, Responses)."""
        stream = call.stream
        self.answer(stream, refusal, alone=not call.is_answered)
        if not call.has_ended:
            # RFC 9113 section 8.1: the response is whole, and the rest of the request is not wanted.
            self.reset(stream, ErrorCode.NO_ERROR)
        if call.is_up:
            self.take_back(stream)

    def answer(self, stream: int, refusal: Refusal, *, alone: bool) -> None:
        """Send the trailers of a refused call."""
        self._streams.ended(stream)
        block = trailers(refusal.code, refusal.text, refusal.details, alone=alone)
        self._down.over(stream)
        self._down.insert(header_frames(stream, block, end=True))

    def reset(self, stream: int, code: ErrorCode) -> None:
        """Reset a stream towards the client."""
        self._streams.ended(stream)
        self._down.insert(rst_stream(stream, code))
        self.bury(stream)

    def take_back(self, stream: int) -> None:
        """Reset a stream towards the broker."""
        self._up.insert(rst_stream(stream, ErrorCode.CANCEL))
        self.gone[stream] = None
        self._down.watched.add(stream)
        if len(self.gone) > _MAX_DEAD:
            oldest = next(iter(self.gone))
            del self.gone[oldest]
            self._down.watched.discard(oldest)

    def bury(self, stream: int, *, is_open: bool = False) -> None:
        """Discard what the client still sends on a stream.

        :param is_open: True if the client may send to the end, so that its window must not run out.
        """
        self.dead[stream] = is_open
        self._up.watched.add(stream)
        if len(self.dead) > _MAX_DEAD:
            oldest = next(iter(self.dead))
            del self.dead[oldest]
            self._up.watched.discard(oldest)

    def swallow(self, at: int, stop: int, flags: int, stream: int) -> None:
        """Discard a DATA frame of the client, and give back its window."""
        self._up.cut(at, stop)
        self._up.grant(0, stop - at - HEAD)
        if flags & END_STREAM:
            self.unbury(stream)
        elif self.dead.get(stream):
            self._up.grant(stream, stop - at - HEAD)

    def unbury(self, stream: int) -> bool:
        """The client has ended a stream; True if it was refused before."""
        if stream not in self.dead:
            return False
        del self.dead[stream]
        self._up.watched.discard(stream)
        return True

    def swallow_answer(self, at: int, stop: int, stream: int, *, size: int, end: bool) -> None:
        """Discard a frame of the broker for a stream that was reset.

        :param size: what it took of the window.
        """
        self._down.cut(at, stop)
        self._down.grant(0, size)
        if end:
            self.gone.pop(stream, None)
            self._down.watched.discard(stream)
