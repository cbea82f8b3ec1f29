"""Sinks of decisions."""

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from sluicegate.engine.gate import Gate
    from sluicegate.model import Decision, Operation


class DecisionSink(Protocol):
    """Takes every decision once; both methods run on the path of messages and must not block or raise."""

    def allowed(self, gate: "Gate", op: "Operation", now_ns: int, /) -> None:
        """An operation was simply allowed."""

    def decided(self, gate: "Gate", op: "Operation", decision: "Decision", now_ns: int, /) -> "Decision":
        """Another decision was taken, or only observed.

        :return: the decision with its id and the gate's policy version.
        """


class NullSink:
    """Keeps nothing; ids count from 1."""

    def __init__(self) -> None:
        self._last_id = 0

    def allowed(self, gate: "Gate", op: "Operation", now_ns: int) -> None:
        """Ignore it."""

    def decided(self, gate: "Gate", op: "Operation", decision: "Decision", now_ns: int) -> "Decision":
        """Number it."""
        self._last_id += 1
        return replace(decision, id=str(self._last_id), policy_version=gate.version)
