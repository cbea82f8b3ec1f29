"""What a stand-in for a broker notes of its clients, on the clock that all processes of a host share."""

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from sluicegate_reports.transforms.law import Moments
from sluicegate_reports.transforms.packed import Numbers

_MESSAGE, _CAME, _WENT = "m", "+", "-"
SENT_BYTES = 8
"""A message ends with the time at which its client sent it, in ns of the monotonic clock."""


class NotePad:
    """Notes as lines of a file.

    :param path: of the file, which is made.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", buffering=1 << 20)

    def message(self, sent: bytes) -> None:
        """A message has come.

        :param sent: its last bytes.
        """
        self._file.write(f"{_MESSAGE} {int.from_bytes(sent)} {time.monotonic_ns()}\n")

    def came(self, name: str) -> None:
        """A producer is attached."""
        self._file.write(f"{_CAME} {name} {time.monotonic_ns()}\n")

    def went(self, name: str) -> None:
        """A producer is attached no more."""
        self._file.write(f"{_WENT} {name} {time.monotonic_ns()}\n")

    def flush(self) -> None:
        """Have all of it in the file."""
        self._file.flush()

    def close(self) -> None:
        """Have all of it in the file, and end."""
        self._file.close()


@dataclass(slots=True)
class Noted:
    """What is in such a file; a line that is not whole yet is left out."""

    sent_ns: Numbers
    """Of each message, in order of arrival."""
    arrived_ns: Numbers
    attached: list[tuple[int, int]] = field(default_factory=list)
    """When the number of producers changed (ns), and to how many of different names."""

    @classmethod
    def read(cls, path: Path) -> "Noted":
        """Read the file."""
        lines = [line.split() for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]
        messages = [(int(sent), int(arrived)) for what, sent, arrived in lines if what == _MESSAGE]
        sent, arrived = np.array(messages, np.int64).reshape(-1, 2).T
        changes = ((what, name, int(at)) for what, name, at in lines if what != _MESSAGE)
        return cls(sent, arrived, list(_numbers(changes)))

    @property
    def arrivals(self) -> Moments:
        """Messages as they arrived."""
        return Moments(self.arrived_ns // 1000, self.arrived_ns // 1000, np.ones_like(self.arrived_ns))

    @property
    def certain(self) -> Moments:
        """Messages as they were admitted: between sending and arrival."""
        return Moments(self.sent_ns // 1000, self.arrived_ns // 1000 + 1, np.ones_like(self.arrived_ns))


def _numbers(changes: Iterator[tuple[str, str, int]]) -> Iterator[tuple[int, int]]:
    there: Counter[str] = Counter()
    for what, name, at_ns in changes:
        there[name] += 1 if what == _CAME else -1
        yield at_ns, sum(count > 0 for count in there.values())
