"""Switches for checks that are not always needed: while one is off, gates do not call its checks."""

from typing import Protocol
from weakref import WeakSet


class Switched(Protocol):
    """A gate, or another object that recomputes its checks when a switch is set."""

    def recompute_checks(self) -> None:
        """Choose the checks to call, by the current switches."""


class Switch:
    """Tells gates whether to call the checks behind it.

    Gates join it when they are compiled. Setting it makes each of them recompute its checks; nothing is
    compiled. Only the thread that owns the gates may set it, and no check may while it decides.

    :param on: True to begin with the checks called.
    """

    __slots__ = ("_gates", "flips", "on")

    def __init__(self, on: bool = False) -> None:
        self.on = on
        self.flips = 0
        """How often it was set from on to off or back."""
        self._gates: WeakSet[Switched] | None = None

    def join(self, gate: Switched) -> None:
        """Notify a gate of every flip, for as long as it lives."""
        if self._gates is None:
            self._gates = WeakSet()
        self._gates.add(gate)

    def set(self, on: bool) -> None:
        """Set it on or off; idempotent."""
        if on == self.on:
            return
        self.on = on
        self.flips += 1
        for gate in self._gates or ():
            gate.recompute_checks()
