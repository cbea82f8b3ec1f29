"""`NullSink`, for gates whose decisions are not recorded."""

from sluicegate.api import Action, Decision, Operation, OperationKind
from sluicegate.testing import NullSink, build_gate


def test_decisions_are_numbered_from_1_and_carry_the_policy_version() -> None:
    gate, sink = build_gate({}, now_ns=0), NullSink()
    operation = Operation(OperationKind.PUBLISH, "/default/orders")

    told = [sink.decided(gate, operation, Decision(Action.REJECT, ()), 0) for _ in range(3)]

    assert [(one.id, one.policy_version, one.action) for one in told] == [
        (number, gate.version, Action.REJECT) for number in ("1", "2", "3")
    ]
