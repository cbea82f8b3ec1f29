"""HTTP/2 frames: their numbers, and those that the gateway makes itself (RFC 9113)."""

from collections.abc import Iterator
from enum import IntEnum
from functools import partial
from struct import Struct

from sluicegate.broker import Buffer
from sluicegate.model import CloseReason
from sluicegate_grpc.events import GrpcClose

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEAD = 9
"""Bytes of a frame's head."""
read_head = Struct(">HBBBi").unpack_from
"""Length (its upper 16 bits and its lower 8), type, flags, stream.

The stream is negative if the reserved bit is set; `STREAM_MASK` takes that away.
"""
_write_head = Struct(">HBBBI").pack
MAX_WINDOW = 2**31 - 1
STREAM_MASK = 2**31 - 1
LEAST_MAX_FRAME = 16_384
"""Payload that every receiver takes."""

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = (
    range(10)
)

window_update = partial(Struct(">HBBBII").pack, 0, 4, WINDOW_UPDATE, 0)
"""`(stream, amount)`: a WINDOW_UPDATE frame."""

ACK = END_STREAM = 0x1
END_HEADERS = 0x4
PADDED = 0x8
HAS_PRIORITY = 0x20


class ErrorCode(IntEnum):
    """Why a stream or a connection ends (RFC 9113 section 7)."""

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FLOW_CONTROL_ERROR = 3
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    ENHANCE_YOUR_CALM = 11


class WireError(Exception):
    """A peer broke the protocol, or exceeded a limit: its connection ends.

    :param code: sent to it in a GOAWAY.
    :param counter: why, in metrics and logs.
    :param text: what was wrong.
    """

    def __init__(self, code: ErrorCode, counter: CloseReason, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.counter = counter


def malformed(text: str, code: ErrorCode = ErrorCode.PROTOCOL_ERROR) -> WireError:
    """A frame breaks the protocol."""
    return WireError(code, GrpcClose.FRAME_MALFORMED, text)


def idle(stream: int) -> WireError:
    """A frame arrived on an idle stream (RFC 9113 section 5.1)."""
    return malformed(f"stream {stream} was never opened")


def frame(kind: int, flags: int, stream: int, payload: Buffer = b"") -> bytes:
    """One frame."""
    size = len(payload)
    return _write_head(size >> 8, size & 0xFF, kind, flags, stream) + payload


def data_frames(stream: int, payload: Buffer) -> list[bytes]:
    """The payload in DATA frames that every receiver accepts."""
    view = memoryview(payload)
    starts = range(0, len(payload), LEAST_MAX_FRAME)
    return [frame(DATA, 0, stream, view[at : at + LEAST_MAX_FRAME]) for at in starts]


def header_frames(stream: int, block: bytes, *, end: bool) -> bytes:
    """A header block, in as many frames as it needs."""
    flags = END_STREAM if end else 0
    if len(block) <= LEAST_MAX_FRAME:
        return frame(HEADERS, flags | END_HEADERS, stream, block)
    parts = [block[at : at + LEAST_MAX_FRAME] for at in range(0, len(block), LEAST_MAX_FRAME)]
    frames = [frame(HEADERS, flags, stream, parts[0])]
    frames += [frame(CONTINUATION, 0, stream, part) for part in parts[1:-1]]
    frames.append(frame(CONTINUATION, END_HEADERS, stream, parts[-1]))
    return b"".join(frames)


def whole_frames(data: bytes, at: int = 0) -> Iterator[tuple[int, int, int, int, int]]:
    """The frames that are all there: kind, flags, stream, and where each begins and ends.

    :param at: where the first one begins.
    """
    while len(data) - at >= HEAD:
        high, low, kind, flags, stream = read_head(data, at)
        stop = at + HEAD + (high << 8 | low)
        if stop > len(data):
            return
        yield kind, flags, stream & STREAM_MASK, at, stop
        at = stop


def window_amount(data: Buffer, at: int, stop: int) -> int:
    """How far a WINDOW_UPDATE frame opens a window.

    :raises WireError: if it is of another size.
    """
    if stop - at != HEAD + 4:
        raise malformed("WINDOW_UPDATE of a wrong size", ErrorCode.FRAME_SIZE_ERROR)
    return int.from_bytes(data[at + HEAD : stop], "big") & MAX_WINDOW


def rst_stream(stream: int, code: ErrorCode) -> bytes:
    """An RST_STREAM frame."""
    return frame(RST_STREAM, 0, stream, code.to_bytes(4, "big"))


def goaway(last_stream: int, code: ErrorCode, text: str) -> bytes:
    """A GOAWAY frame."""
    return frame(GOAWAY, 0, 0, last_stream.to_bytes(4, "big") + code.to_bytes(4, "big") + text.encode()[:200])


def unpadded(data: Buffer, at: int, stop: int, flags: int) -> tuple[int, int]:
    """Where the content of a DATA or HEADERS frame begins and ends, without padding and priority.

    :param at: where the frame begins.
    :raises WireError: if there is more padding than frame.
    """
    start, end = at + HEAD, stop
    if flags & PADDED:
        if start >= stop:
            raise malformed("a padded frame without a pad length", ErrorCode.FRAME_SIZE_ERROR)
        end -= data[start]
        start += 1
    if data[at + 3] == HEADERS and flags & HAS_PRIORITY:
        start += 5
    if start > end:
        raise malformed("more padding than frame")
    return start, end
