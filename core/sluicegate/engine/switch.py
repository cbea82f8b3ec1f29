"""What is dynamic stands behind a switch: while it is off, the gate does not call it at all."""

from typing import Protocol
from weakref import WeakSet


class Lined(Protocol):
    """What lines up its calls anew when a switch is turned; a gate."""

    def line_up(self) -> None:
        """Set out what is to be called, by the switches as they stand."""


class Switch:
    """Tells gates whether to call the checks behind it.

    Gates join it when they are compiled; turning it has each of them line up its calls, which compiles
    nothing. Only the thread that owns the gates may turn it, and no check may while it decides.

    :param on: True to begin with the checks called.
    """

    __slots__ = ("_lined", "on", "turns")

    def __init__(self, on: bool = False) -> None:
        self.on = on
        self.turns = 0
        """How often it was turned on or off."""
        self._lined: WeakSet[Lined] | None = None

    def join(self, lined: Lined) -> None:
        """Have a gate told of every turn, for as long as it lives."""
        if self._lined is None:
            self._lined = WeakSet()
        self._lined.add(lined)

    def turn(self, on: bool) -> None:
        """Turn it on or off; does nothing if it stands like that already."""
        if on == self.on:
            return
        self.on = on
        self.turns += 1
        for lined in self._lined or ():
            lined.line_up()
