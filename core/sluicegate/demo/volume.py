"""Fills the volume of the demo's directory temporarily with a real file, in small steps."""

import os
from dataclasses import dataclass
from pathlib import Path

_MIB = 1 << 20
_STEP = 64 * _MIB
_SHARE = 8
"""A step uses at most this fraction (1/8) of the free space of a small volume."""
_BLOCK = bytes(_MIB)


@dataclass(frozen=True, slots=True)
class FreeLimits:
    """Free bytes at which publishing slows down, and at which it pauses."""

    soft: int
    hard: int

    @classmethod
    def below(cls, directory: Path) -> "FreeLimits":
        """Create limits that a file of a few MiB reaches from the current usage.

        Other programs may write or delete data meanwhile. So there is some space before the soft limit, and
        the ramp is not too short.
        """
        free = free_bytes(directory)
        step = min(_STEP, free // _SHARE)
        return cls(free - step, free - 2 * step)

    def at(self, factor: float) -> int:
        """Free bytes for a factor; a negative factor is beyond the hard limit."""
        return round(self.hard + factor * (self.soft - self.hard))


def free_bytes(directory: Path) -> int:
    """Bytes that an unprivileged process can still write."""
    status = os.statvfs(directory)
    return status.f_bavail * status.f_frsize


class Ballast:
    """A real file that uses space like data.

    :param directory: a directory on the volume.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / "ballast"

    @property
    def size(self) -> int:
        """Its size in bytes."""
        return self._path.stat().st_size if self._path.exists() else 0

    def leave(self, free: int) -> None:
        """Grow or shrink until a number of bytes are free, or the file is empty; blocks.

        :raises OSError: if the file cannot grow.
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
        """Delete the file."""
        self._path.unlink(missing_ok=True)
