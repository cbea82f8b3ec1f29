"""A sink of decisions for tools and tests."""

from dataclasses import replace

from sluicegate.engine.gate import Gate
from sluicegate.model import Decision, Operation


class NullSink:
    """Keeps nothing; ids count from 1."""

    def __init__(self) -> None:
        self._last_id = 0

    def allowed(self, gate: Gate, op: Operation, now_ns: int) -> None:
        """Ignore it."""

    def decided(self, gate: Gate, op: Operation, decision: Decision, now_ns: int) -> Decision:
        """Number it."""
        self._last_id += 1
        return replace(decision, id=str(self._last_id), policy_version=gate.version)
