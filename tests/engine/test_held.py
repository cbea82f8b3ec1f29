"""Which operations are held now, of all topics of a broker."""

import pytest
from tests.engine.lab import MakeGate

from sluicegate.engine.check import Check, CheckCall, Stage
from sluicegate.engine.held import FORGET_NS, HeldOperations, holder_of
from sluicegate.engine.state import TopicState
from sluicegate.model import Action, Decision, Operation, OperationKind, Outcome, Reason

KINDS = (OperationKind.PUBLISH, OperationKind.ATTACH_PRODUCER)


@pytest.fixture
def held(state: TopicState) -> HeldOperations:
    return state.broker.held


def answer(action: Action) -> Decision:
    return Decision(action, (Reason("mine", Outcome.LIMIT_REACHED, "no"),), delay_ns=1)


def holding_until(until_ns: int, then: Decision | None = None) -> CheckCall:
    return lambda op, now_ns: answer(Action.DELAY) if now_ns < until_ns else then


def operation(kind: OperationKind = OperationKind.PUBLISH) -> Operation:
    return Operation(kind, "/default/orders", client="a@h:1", producer="p", messages=1, bytes=10, largest=10)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("then", [None, answer(Action.REJECT)], ids=["goes on", "is refused"])
def test_an_operation_is_held_from_the_first_answer_to_the_last(
    make_gate: MakeGate, held: HeldOperations, kind: OperationKind, then: Decision | None
) -> None:
    gate = make_gate([Check("mine", KINDS, holding_until(40, then), Stage.RATE)])
    op = operation(kind)
    for now_ns in (5, 20, 39):
        gate.decide(op, now_ns)
    [found] = held
    assert (found.op, found.since_ns, holder_of(op)) == (op, 5, "mine")
    assert held.by_topic == {"/default/orders": 1}
    gate.decide(op, 45)
    assert (len(held), held.by_topic) == (0, {})


def test_a_client_that_is_gone_is_not_held(make_gate: MakeGate, held: HeldOperations) -> None:
    gate = make_gate([Check("mine", KINDS, holding_until(40), Stage.RATE)])
    ops = [operation(), operation()]
    for op in ops:
        gate.publish(op, 0)
    gate.abandon(ops[0], 1)
    assert [found.op for found in held] == ops[1:]
    assert ops[1].totals.held == 1


def test_an_operation_that_was_only_observed_is_not_held(make_gate: MakeGate, held: HeldOperations) -> None:
    gate = make_gate([Check("mine", KINDS, holding_until(40), Stage.RATE)], {"mode.mine": "observe"})
    gate.publish(operation(), 0)
    assert len(held) == 0


def test_one_that_never_asks_again_is_forgotten(make_gate: MakeGate, held: HeldOperations) -> None:
    gate = make_gate([Check("mine", KINDS, holding_until(FORGET_NS * 9), Stage.RATE)])
    silent, asking = operation(), operation()
    for op in (silent, asking):
        gate.publish(op, 0)
    gate.publish(asking, FORGET_NS)
    held.forget_silent(FORGET_NS + 1)
    assert [found.op for found in held] == [asking]
    gate.abandon(silent, FORGET_NS + 2)
    assert silent.totals.held == 1
