"""A topic, and a sink that keeps the decisions."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from sluicegate.engine.check import Check
from sluicegate.engine.gate import Gate
from sluicegate.model import Decision, Operation, PolicyValue, TopicName

TOPIC = TopicName("/default/orders", "default")


class KeepingSink:
    """Keeps every decision, and what each was about; ids are d1, d2, …"""

    def __init__(self) -> None:
        self.allows: list[str] = []
        self.decisions: list[Decision] = []
        self.decided_at: list[tuple[Operation, int]] = []

    def allowed(self, gate: Gate, op: Operation, now_ns: int) -> None:
        self.allows.append(op.kind.name)

    def decided(self, gate: Gate, op: Operation, decision: Decision, now_ns: int) -> Decision:
        stamped = replace(decision, id=f"d{len(self.decisions) + 1}", policy_version=gate.version)
        self.decisions.append(stamped)
        self.decided_at.append((op, now_ns))
        return stamped


class MakeGate(Protocol):
    """The fixture that compiles a gate from bare checks."""

    def __call__(
        self,
        checks: Sequence[Check],
        values: Mapping[str, PolicyValue] | None = None,
        *,
        exempt: bool = False,
        observe_only: bool = False,
        exempt_policies: frozenset[str] = frozenset(),
    ) -> Gate: ...
