"""Decision sinks for tools and tests: one keeps everything, one nothing."""

from dataclasses import dataclass, replace

from sluicegate.engine.gate import Gate
from sluicegate.model import Decision, Operation


@dataclass(frozen=True, slots=True)
class Recorded:
    """One recorded operation and its decision."""

    now_ns: int
    op: Operation
    """A copy, as the operation was when it was decided."""
    decision: Decision | None
    """None for an allow."""


class RecordingSink:
    """Keeps every decision in order; ids are `test-1`, `test-2` and so on."""

    def __init__(self) -> None:
        self.records: list[Recorded] = []
        self._last_id = 0

    @property
    def decisions(self) -> list[Decision]:
        """All decisions other than plain allows, including observed ones, in order."""
        return [record.decision for record in self.records if record.decision is not None]

    @property
    def allows(self) -> list[Operation]:
        """The operations that were allowed, in order."""
        return [record.op for record in self.records if record.decision is None]

    def allowed(self, gate: Gate, op: Operation, now_ns: int) -> None:
        """Keep an allowed operation."""
        self.records.append(Recorded(now_ns, replace(op), None))

    def decided(self, gate: Gate, op: Operation, decision: Decision, now_ns: int) -> Decision:
        """Keep a decision, numbered."""
        self._last_id += 1
        stamped = replace(decision, id=f"test-{self._last_id}", policy_version=gate.version)
        self.records.append(Recorded(now_ns, replace(op), stamped))
        return stamped


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
