"""Handling common to both sides: fragmented header blocks and windows."""

from dataclasses import dataclass
from struct import Struct

from sluicegate_grpc.events import GrpcClose
from sluicegate_grpc.proxy.splice.blocks import FAR
from sluicegate_grpc.proxy.splice.connection_state import Connection
from sluicegate_grpc.proxy.splice.frame_stream import FrameStream
from sluicegate_grpc.proxy.splice.frames import (
    END_HEADERS,
    HAS_PRIORITY,
    HEAD,
    MAX_WINDOW,
    PADDED,
    STREAM_MASK,
    ErrorCode,
    WireError,
    malformed,
    unpadded,
    window_update,
)

_HAS_MORE = PADDED | HAS_PRIORITY
"""A HEADERS frame holds more than its block."""


_read_amount = Struct(">I").unpack_from


@dataclass(slots=True)
class Block:
    """A header block that comes in several frames."""

    flags: int
    """Of its HEADERS frame."""
    frames: bytes
    """The frames received so far."""
    content: bytes
    """Of the block."""
    pieces: int = 0
    """CONTINUATION frames among them."""


class Side:
    """One of the two peers, by the frames that it sends.

    :param connection: the client's.
    :param frames: its frames.
    """

    __slots__ = ("_block", "_frames", "_shared")

    def __init__(self, connection: Connection, frames: FrameStream) -> None:
        self._frames = frames
        self._shared = connection.shared
        self._block: Block | None = None

    # -- header blocks --------------------------------------------------------------------------------

    def headers(self, data: bytes, at: int, stop: int, flags: int, stream: int, now_ns: int) -> None:
        """A HEADERS frame."""
        # <hot> Runs for every request and response.
        begin, end = at + HEAD, stop
        if flags & _HAS_MORE:
            begin, end = unpadded(data, at, stop, flags)
            if flags & HAS_PRIORITY and _read_amount(data, begin - 5)[0] & STREAM_MASK == stream:
                text = f"stream {stream} depends on itself"  # RFC 7540 5.3.1; RFC 9113 has no priorities
                raise malformed(text)
        if not stream:
            raise malformed("HEADERS on stream 0")
        if flags & END_HEADERS:
            self.block(data, at, stop, data[begin:end], flags, stream, now_ns)
            return
        self._frames.block_begins(at, stop, stream)
        self._block = Block(flags, data[at:stop], data[begin:end])

    def continuation(self, data: bytes, at: int, stop: int, flags: int, stream: int, now_ns: int) -> None:
        """A CONTINUATION frame: the block is handled and forwarded once it is complete."""
        block = self._block
        if block is None:
            raise malformed("CONTINUATION without HEADERS")
        self._frames.withhold(at, stop)
        block.pieces += 1
        block.frames += data[at:stop]
        block.content += data[at + HEAD : stop]
        too_many = block.pieces > self._shared.limits.continuations
        if too_many or len(block.content) > FAR * self._shared.limits.header_list_bytes:
            text = f"a header block of {len(block.content)} bytes in {block.pieces + 1} frames"
            raise WireError(ErrorCode.ENHANCE_YOUR_CALM, GrpcClose.CONTINUATION_FLOOD, text)
        if flags & END_HEADERS:
            self._block = None
            self._frames.block_ends(len(block.frames))
            self.apart(block, stream, now_ns)

    def block(
        self, data: bytes, at: int, stop: int, block: bytes, flags: int, stream: int, now_ns: int
    ) -> None:
        """A header block in one frame, which passes unless it is cut."""
        raise NotImplementedError

    def apart(self, block: Block, stream: int, now_ns: int) -> None:
        """A header block of several frames, which were cut from what was read."""
        raise NotImplementedError

    # -- windows -------------------------------------------------------------------------------------------

    def window(self, data: bytes, at: int, stop: int, stream: int) -> None:
        """A WINDOW_UPDATE frame, less the credit that the other side has already.

        :raises WireError: if it is malformed.
        """
        # <hot> Runs once or twice for every call.
        if stop - at != HEAD + 4:
            raise malformed("WINDOW_UPDATE of a wrong size", ErrorCode.FRAME_SIZE_ERROR)
        amount = _read_amount(data, at + HEAD)[0] & MAX_WINDOW
        if not amount and not stream:
            raise malformed("WINDOW_UPDATE of 0")
        flow = self._frames.back.flow
        if not (flow.debt or flow.outlets):  # nothing is corrected, as nearly always
            if not stream:
                flow.opened(amount)
            return
        forwarded = flow.updated(stream, amount)
        if forwarded == amount:
            return
        if forwarded:
            self._frames.replace(at, stop, window_update(stream, forwarded))
        else:
            self._frames.cut(at, stop)
