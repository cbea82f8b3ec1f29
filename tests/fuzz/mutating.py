"""What becomes of frames before they are sent: each mutator takes a list of whole frames and gives another.

Mutators know one thing of a protocol: how a frame says its own length (`Framing`). Those that change what is
inside put it right again, so that the damage gets behind the cutting of frames.
"""

from collections.abc import Callable
from random import Random
from typing import NamedTuple

LARGEST_READ = 256 * 1024
"""Bytes that the event loop reads at once."""
_LARGE = (
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\x00\xff\xff\xff",
    b"\x00\x01\x00\x00",
    b"\x7f\xff",
    b"\xff\xff",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x07",
    b"\xff" * 9 + b"\x01",
    b"\xff" * 12,
    b"\x00" * 8,
    b"\x7f" + b"\xff" * 7,
)
"""Lengths, counts, numbers and times that are too large, in each way of writing them."""


class Framing(NamedTuple):
    """How frames of a protocol are cut."""

    head: int
    """Bytes before what the length counts."""
    resize: Callable[[bytes], bytes]
    """Has a frame say the length that it has."""
    kind: tuple[int, int]
    """First and last byte of what says which message this is, in which version, of which stream."""
    foreign: tuple[bytes, ...]
    """What clients of other protocols send."""


Mutator = Callable[[list[bytes], Random, Framing], list[bytes]]


def mutate(frames: list[bytes], chance: Random, framing: Framing) -> list[bytes]:
    """The same frames after one or two mutators."""
    for _ in range(1 + (chance.random() < 0.2)):
        frames = chance.choice(MUTATORS)(frames, chance, framing)
    return frames


def _in_one(change: Callable[[bytes, Random, Framing], bytes]) -> Mutator:
    """Have one of the frames changed."""

    def mutator(frames: list[bytes], chance: Random, framing: Framing) -> list[bytes]:
        place = chance.randrange(len(frames))
        return [*frames[:place], change(frames[place], chance, framing), *frames[place + 1 :]]

    return mutator


def _behind_head(frame: bytes, chance: Random, framing: Framing) -> int:
    return chance.randrange(min(framing.head, len(frame)), len(frame) + 1)


def _flip(frame: bytes, chance: Random, framing: Framing) -> bytes:
    """Other bytes behind the length."""
    out = bytearray(frame)
    for _ in range(chance.choice((1, 1, 2, 8))):
        if len(out) > framing.head:
            out[chance.randrange(framing.head, len(out))] ^= 1 << chance.randrange(8)
    return bytes(out)


def _any_byte(frame: bytes, chance: Random, framing: Framing) -> bytes:
    """Change any byte, even of the length."""
    out = bytearray(frame)
    out[chance.randrange(len(out))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
    return bytes(out)


def _cut(frame: bytes, chance: Random, framing: Framing) -> bytes:
    """The end is missing, and the length says so."""
    return framing.resize(frame[: _behind_head(frame, chance, framing)])


def _break_off(frame: bytes, chance: Random, framing: Framing) -> bytes:
    """The end is missing, and the next frame is taken for it."""
    return frame[: chance.randrange(1, len(frame) + 1)]


def _grow(frame: bytes, chance: Random, framing: Framing) -> bytes:
    """Something more somewhere within."""
    at = _behind_head(frame, chance, framing)
    more = chance.choice((chance.randbytes(chance.randrange(1, 64)), frame[at:], chance.choice(_LARGE)))
    return framing.resize(frame[:at] + more + frame[at:])


def _enlarge(frame: bytes, chance: Random, framing: Framing) -> bytes:
    """A length, a count or a number within is large."""
    at = _behind_head(frame, chance, framing)
    large = chance.choice(_LARGE)
    return framing.resize(frame[:at] + large + frame[at + len(large) :])


def _announce(frame: bytes, chance: Random, framing: Framing) -> bytes:
    """The frame itself says that it is larger than it is."""
    large = chance.choice((b"\x7f\xff\xff\xff", b"\x00\x10\x00\x00", b"\x00\xff\xff\xff", b"\xff" * 4))
    return large[: min(4, framing.head)] + frame[min(4, framing.head) :]


def _another_kind(frame: bytes, chance: Random, framing: Framing) -> bytes:
    """Another message, version, flag or stream."""
    first, last = framing.kind
    out = bytearray(frame)
    at = chance.randint(first, last)
    if at < len(out):
        out[at] = chance.choice(((out[at] + 1) % 256, (out[at] - 1) % 256, chance.randrange(80)))
    return bytes(out)


def _splice(frames: list[bytes], chance: Random, framing: Framing) -> list[bytes]:
    """The beginning of one frame with the end of another."""
    a, b = chance.choice(frames), chance.choice(frames)
    at = _behind_head(a, chance, framing)
    spliced = framing.resize(a[:at] + b[min(at, len(b)) :])
    return [*frames, spliced]


def _duplicate(frames: list[bytes], chance: Random, framing: Framing) -> list[bytes]:
    """One of the frames again, behind all."""
    return [*frames, chance.choice(frames)]


def _flood(frames: list[bytes], chance: Random, framing: Framing) -> list[bytes]:
    """One of the frames so often that they fill a read."""
    frame = chance.choice(frames)
    if chance.random() < 0.8:
        return frames + [frame] * chance.randrange(2, 60)
    return frames + [frame] * chance.randrange(1, max(2, LARGEST_READ // len(frame)))


def _reorder(frames: list[bytes], chance: Random, framing: Framing) -> list[bytes]:
    """The same in another order."""
    return chance.sample(frames, len(frames))


def _drop(frames: list[bytes], chance: Random, framing: Framing) -> list[bytes]:
    """One of several is missing."""
    place = chance.randrange(len(frames))
    return frames[:place] + frames[place + 1 :] or frames


def _foreign(frames: list[bytes], chance: Random, framing: Framing) -> list[bytes]:
    """Something of another protocol between."""
    place = chance.randrange(len(frames) + 1)
    return [*frames[:place], chance.choice(framing.foreign), *frames[place:]]


MUTATORS: tuple[Mutator, ...] = (
    *map(_in_one, (_flip, _flip, _flip, _any_byte, _cut, _cut, _break_off, _grow, _grow)),
    *map(_in_one, (_enlarge, _enlarge, _enlarge, _announce, _another_kind, _another_kind)),
    *(_splice, _splice, _duplicate, _duplicate, _flood, _reorder, _reorder, _drop, _foreign),
)
