"""Switches for checks that are not always needed: while one is off, gates do not call its checks."""

from typing import Protocol
from weakref import WeakSet


class Switched(Protocol):
    """A gate, or another object that recomputes its checks when a switch is turned."""

    def recompute_checks(self) -> None:
        """Choose the checks to call, by the current switches."""


class Switch:
    """Tells gates whether to call the checks behind it.

    Gates join it when they are compiled. Turning it makes each of them recompute its checks; nothing is
    compiled. Only the thread that owns the gates may turn it, and no check may while it decides.

    :param on: True to begin with the checks called.
    """

    __slots__ = ("_gates", "on", "turns")

    def __init__(self, on: bool = False) -> None:
        self.on = on
        self.turns = 0
        """How often it was turned on or off."""
        self._gates: WeakSet[Switched] | None = None

    def join(self, gate: Switched) -> None:
        """Notify a gate of every turn, for as long as it lives."""
        if self._gates is None:
            self._gates = WeakSet()
        self._gates.add(gate)

    def turn(self, on: bool) -> None:
        """Turn it on or off; idempotent."""
        if on == self.on:
            return
        self.on = on
        self.turns += 1
        for gate in self._gates or ():
            gate.recompute_checks()
