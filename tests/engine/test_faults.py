"""Checks that raise never stop traffic."""

import pytest
from tests.engine.lab import KeepingSink, MakeGate

from sluicegate.engine.check import Check, Stage
from sluicegate.engine.faults import FAULTS_TO_OPEN, OPEN_NS, Fault, GateFaults, plugin_of
from sluicegate.model import Action, Decision, Operation, OperationKind, Outcome

KINDS = tuple(OperationKind)


class Flaky:
    """Raises while told to."""

    def __init__(self) -> None:
        self.calls = 0
        self.broken = True

    def __call__(self, op: Operation, now_ns: int) -> Decision | None:
        self.calls += 1
        if self.broken:
            raise LookupError("no such table")
        return None


def operation(kind: OperationKind) -> Operation:
    return Operation(kind, "/default/orders", producer="p", client="a", messages=1)


@pytest.mark.parametrize(
    "kind", [OperationKind.PUBLISH, OperationKind.DISPATCH, OperationKind.ATTACH_PRODUCER]
)
@pytest.mark.parametrize("others", [0, 1, 2])
def test_a_fault_is_counted_and_the_other_checks_still_run(
    make_gate: MakeGate, faults: GateFaults, kind: OperationKind, others: int
) -> None:
    asked: list[str] = []
    before = [Check("before", KINDS, lambda op, now_ns: asked.append("before"), Stage.SIZE)] * others
    gate = make_gate(
        [
            *before,
            Check("flaky", KINDS, Flaky(), plugin="acme"),
            Check("after", KINDS, lambda op, now_ns: asked.append("after"), Stage.RATE),
        ]
    )

    assert gate.decide(operation(kind), 0) is None
    assert gate.decide(operation(kind), 0) is None

    assert asked == (["before"] * others + ["after"]) * 2
    assert faults.counts == {"acme": 2}
    assert faults.last["acme"] == Fault(
        "acme", "flaky", "/default/orders", "LookupError: no such table", opened=False
    )
    assert gate.state.allowed_ops == 2


@pytest.mark.parametrize("kind", [OperationKind.PUBLISH, OperationKind.DISPATCH, OperationKind.ACKNOWLEDGE])
def test_fails_closed_if_the_check_says_so(
    make_gate: MakeGate, sink: KeepingSink, kind: OperationKind
) -> None:
    flaky = Flaky()
    gate = make_gate([Check("flaky", KINDS, flaky, fail_open=False)])

    for now_ns in range(FAULTS_TO_OPEN + 3):
        refused = gate.decide(operation(kind), now_ns)
        assert refused is not None
        assert refused.action is Action.REJECT
        assert refused.reasons[0].outcome is Outcome.PRECONDITION
        assert "Policy flaky could not be checked for topic /default/orders." in refused.text

    # It stays closed while the check itself is no longer called.
    assert flaky.calls == FAULTS_TO_OPEN
    assert len(sink.decisions) == FAULTS_TO_OPEN + 3


def test_a_check_that_keeps_raising_is_skipped_and_tried_again(make_gate: MakeGate) -> None:
    flaky = Flaky()
    gate = make_gate([Check("flaky", KINDS, flaky)])
    op = operation(OperationKind.PUBLISH)

    for now_ns in range(FAULTS_TO_OPEN + 10):
        assert gate.publish(op, now_ns) is None
    assert flaky.calls == FAULTS_TO_OPEN

    retry_ns = FAULTS_TO_OPEN - 1 + OPEN_NS
    assert gate.publish(op, retry_ns) is None
    assert flaky.calls == FAULTS_TO_OPEN + 1
    assert gate.publish(op, retry_ns + 1) is None
    assert flaky.calls == FAULTS_TO_OPEN + 1

    flaky.broken = False
    for now_ns in range(retry_ns + OPEN_NS, retry_ns + OPEN_NS + 3):
        gate.publish(op, now_ns)
    assert flaky.calls == FAULTS_TO_OPEN + 4


def test_only_consecutive_faults_count(make_gate: MakeGate, faults: GateFaults) -> None:
    flaky = Flaky()
    gate = make_gate([Check("flaky", KINDS, flaky)])

    for now_ns in range(4 * FAULTS_TO_OPEN):
        flaky.broken = now_ns % FAULTS_TO_OPEN != 0
        gate.publish(operation(OperationKind.PUBLISH), now_ns)

    assert flaky.calls == 4 * FAULTS_TO_OPEN
    assert not any(fault.opened for fault in faults.last.values())


def test_faults_without_a_plugin_name_go_to_the_module(make_gate: MakeGate, faults: GateFaults) -> None:
    make_gate([Check("flaky", KINDS, Flaky())]).publish(operation(OperationKind.PUBLISH), 0)

    assert faults.counts == {__name__: 1}


def test_every_fault_is_reported() -> None:
    reported: list[Fault] = []
    faults = GateFaults(reported.append)
    fault = Fault("acme", "flaky", "t", "ValueError: no", opened=True)

    faults.add(fault)

    assert reported == [fault]


def test_the_fault_after_which_a_check_is_skipped_says_so(make_gate: MakeGate, faults: GateFaults) -> None:
    gate = make_gate([Check("flaky", KINDS, Flaky(), plugin="acme")])
    opened = []

    for now_ns in range(FAULTS_TO_OPEN):
        gate.publish(operation(OperationKind.PUBLISH), now_ns)
        opened.append(faults.last["acme"].opened)

    assert opened == [False] * (FAULTS_TO_OPEN - 1) + [True]


def test_a_plain_function_is_named_by_its_module() -> None:
    assert plugin_of(Check("mine", KINDS, lambda op, now_ns: None)) == __name__


def test_a_callable_without_a_module_is_named_by_its_type() -> None:
    nameless = Flaky()
    nameless.__module__ = ""

    assert plugin_of(Check("mine", KINDS, nameless)) == __name__
