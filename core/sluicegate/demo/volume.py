"""The volume that the demo's own directory is on, filled for a moment by a real file in small steps."""

import os
from dataclasses import dataclass
from pathlib import Path

_MIB = 1 << 20
_STEP = 64 * _MIB
_SHARE = 8
"""A small volume is taken at most this part of for each step."""
_BLOCK = bytes(_MIB)


@dataclass(frozen=True, slots=True)
class FreeLimits:
    """Free bytes at which publishing slows down, and at which it pauses."""

    soft: int
    hard: int

    @classmethod
    def below(cls, directory: Path) -> "FreeLimits":
        """Limits that a file of a few MiB reaches from how the volume is now.

        What other programs write or delete meanwhile moves the volume along the ramp, so there is room before
        the soft limit, and the ramp is not too short.
        """
        free = free_bytes(directory)
        step = min(_STEP, free // _SHARE)
        return cls(free - step, free - 2 * step)

    def at(self, factor: float) -> int:
        """Free bytes at which a factor holds; below 0.0 it is so far beyond the hard limit."""
        return round(self.hard + factor * (self.soft - self.hard))


def free_bytes(directory: Path) -> int:
    """What a process without special rights can still write."""
    found = os.statvfs(directory)
    return found.f_bavail * found.f_frsize


class Ballast:
    """A real file that takes room, as data would.

    :param directory: on the volume.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / "ballast"

    @property
    def size(self) -> int:
        """Bytes that it takes."""
        return self._path.stat().st_size if self._path.exists() else 0

    def leave(self, free: int) -> None:
        """Grow or shrink until so many bytes are free, or until nothing is left of it; blocks.

        :raises OSError: if the volume does not take them.
        """
        size, more = self.size, free_bytes(self._path.parent) - free
        if more < 0 and size:
            os.truncate(self._path, max(0, size + more))
        if more <= 0:
            return
        with self._path.open("ab") as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), size, more)
            else:
                for _ in range(0, more, len(_BLOCK)):
                    file.write(_BLOCK)

    def remove(self) -> None:
        """Give it all back."""
        self._path.unlink(missing_ok=True)
