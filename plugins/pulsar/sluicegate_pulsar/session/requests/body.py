"""The payload of a large SEND, which passes unread behind the start by which it was decided."""

from collections.abc import Callable
from typing import Final, Protocol

from sluicegate.broker import Buffer, Command

LARGE: Final = 64 * 1024
"""Bytes of a SEND from which it may pass by its start."""


class Starts(Protocol):
    """Decides large SENDs by their start."""

    def __call__(self, data: bytes, start: int, stop: int, now_ns: int, /) -> bool:
        """Whether one passes whose first bytes these are; what it has of a buffer ends with that."""

    def ended(self) -> None:
        """All of it has passed."""


class Body:
    """Counts what is still to come of one, and keeps what must not stand in the midst of it.

    :param send: makes the command that sends bytes in this direction.
    """

    __slots__ = ("_deferred", "_last", "_send", "_starts", "unread")

    def __init__(self, send: Callable[[Buffer], Command]) -> None:
        self._send = send
        self._starts: Starts | None = None
        self._last: Command | None = None
        """What last sent bytes of it."""
        self._deferred: list[Command] = []
        """What is sent behind it."""
        self.unread = 0
        """Bytes that still pass unread; nothing else is sent that way meanwhile."""

    def pass_by_start(self, starts: Starts) -> None:
        """Have large SENDs decided by their start."""
        self._starts = starts

    @property
    def is_looked_for(self) -> bool:
        """Whether any SEND may pass by its start."""
        return self._starts is not None

    def starts(self, data: bytes, at: int, stop: int, now_ns: int) -> bool:
        """Whether a large SEND passes by what has arrived of it."""
        if self._starts is None or not self._starts(data, at, stop, now_ns):
            return False
        self.unread = stop - len(data)
        return True

    def begun(self, command: Command) -> None:
        """The start is sent by this command."""
        self._last = command

    def take(self, data: bytes, out: list[Command]) -> bytes:
        """Pass what belongs to it, and return the rest."""
        size = min(self.unread, len(data))
        if size:
            self._last = self._send(data if size == len(data) else memoryview(data)[:size])
            out.append(self._last)
            self.passed(size, out)
        return data[size:]

    def passed(self, count: int, out: list[Command]) -> None:
        """So many bytes were sent."""
        self.unread -= count
        if not self.unread and self._starts is not None:
            self._starts.ended()
            out.extend(self._deferred)
            self._deferred.clear()

    def in_order(self, out: list[Command]) -> list[Command]:
        """What may be sent now: what must not stand in the midst of it is kept until it has passed."""
        if not self.unread:
            return out
        ordered: list[Command] = []
        is_behind = all(command is not self._last for command in out)
        for command in out:
            if is_behind and type(command) is self._send:
                self._deferred.append(command)
            else:
                ordered.append(command)
            is_behind = is_behind or command is self._last
        return ordered
