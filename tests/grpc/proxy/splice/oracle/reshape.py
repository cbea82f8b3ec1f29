"""Other shapes of the same HTTP/2 bytes: what a peer sends, cut into frames as other libraries would cut it.

h2 writes HEADERS without padding and in one frame. What is made of them here says the same to a reader that
keeps to RFC 9113, section 6: padding, a priority, CONTINUATION frames, frames of unknown types in between.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS = 0, 1, 2, 3, 4
PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 5, 6, 7, 8, 9
UNKNOWN = 0xFA
END_STREAM, ACK, END_HEADERS, PADDED, HAS_PRIORITY = 0x1, 0x1, 0x4, 0x8, 0x20
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEAD = 9

Choose = Callable[[int], int]
"""A whole number from 0 up to, but not including, its argument."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame, padding and all."""

    type: int
    flags: int
    stream: int
    payload: bytes

    def to_bytes(self) -> bytes:
        return (
            len(self.payload).to_bytes(3)
            + bytes((self.type, self.flags))
            + self.stream.to_bytes(4)
            + self.payload
        )


def frame(type_: int, flags: int = 0, stream: int = 0, payload: bytes = b"") -> bytes:
    """The bytes of one frame."""
    return Frame(type_, flags, stream, payload).to_bytes()


class Cutter:
    """Cuts a byte stream into whole frames."""

    def __init__(self, has_preface: bool) -> None:
        self._left = bytearray()
        self._preface = len(PREFACE) if has_preface else 0

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that are whole by now; the preface is no frame."""
        self._left += data
        if self._preface:
            if len(self._left) < self._preface:
                return
            assert self._left.startswith(PREFACE)
            del self._left[: self._preface]
            self._preface = 0
        while len(self._left) >= HEAD:
            end = HEAD + int.from_bytes(self._left[:3])
            if len(self._left) < end:
                return
            raw = bytes(self._left[:end])
            del self._left[:end]
            yield Frame(raw[3], raw[4], int.from_bytes(raw[5:9]) & 0x7FFFFFFF, raw[HEAD:])

    @property
    def is_between_frames(self) -> bool:
        """Nothing of a frame is left over."""
        return not self._left


def reshape(found: Frame, choose: Choose) -> bytes:
    """The same frame as another library would have written it."""
    if found.type != HEADERS or found.flags & (PADDED | HAS_PRIORITY) or not found.flags & END_HEADERS:
        # Behind what is there, for the first frame must be SETTINGS.
        noise = frame(UNKNOWN, 0xFF, 0, b"unheard of") if choose(12) == 0 else b""
        return found.to_bytes() + (b"" if found.type in {HEADERS, CONTINUATION} else noise)
    block, flags = found.payload, found.flags & END_STREAM
    pieces = _pieces(block, choose)
    first = pieces[0]
    if choose(3) == 0:
        # Depends on no stream, is not exclusive, has weight 16.
        first, flags = bytes((0, 0, 0, 0, 15)) + first, flags | HAS_PRIORITY
    if first and choose(3) == 0:  # h2 does not take padding without a block before it
        padding = choose(20)
        first, flags = bytes((padding,)) + first + bytes(padding), flags | PADDED
    if len(pieces) == 1:
        return frame(HEADERS, flags | END_HEADERS, found.stream, first)
    rest = b"".join(frame(CONTINUATION, 0, found.stream, piece) for piece in pieces[1:-1])
    last = frame(CONTINUATION, END_HEADERS, found.stream, pieces[-1])
    return frame(HEADERS, flags, found.stream, first) + rest + last


def _pieces(block: bytes, choose: Choose) -> list[bytes]:
    count = 1 + (choose(4) if choose(3) == 0 else 0)
    cuts = sorted(choose(len(block) + 1) for _ in range(count - 1))
    return [block[start:end] for start, end in zip([0, *cuts], [*cuts, len(block)], strict=True)]
