"""`NullSink`, for gates whose decisions are not recorded."""

from tests.engine.lab import MakeGate

from sluicegate.engine.sink import NullSink
from sluicegate.model import Action, Decision, Operation, OperationKind


def test_decisions_are_numbered_from_1_and_carry_the_policy_version(make_gate: MakeGate) -> None:
    gate, sink = make_gate([]), NullSink()
    operation = Operation(OperationKind.PUBLISH, "/default/orders")

    told = [sink.decided(gate, operation, Decision(Action.REJECT, ()), 0) for _ in range(3)]

    assert [(one.id, one.policy_version, one.action) for one in told] == [
        (number, gate.version, Action.REJECT) for number in ("1", "2", "3")
    ]
