"""Every hold is counted once with its length, however it ends."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engine.lab import MakeGate

from sluicegate.engine.check import Check, CheckCall, Stage
from sluicegate.engine.held import BOUNDS_NS, HOLD_SLOTS, HoldTimes
from sluicegate.engine.state import TopicState
from sluicegate.model import Action, Decision, Operation, OperationKind, Outcome, Reason

MS = 1_000_000
KINDS = (OperationKind.PUBLISH, OperationKind.DISPATCH, OperationKind.ATTACH_PRODUCER)


def answer(action: Action) -> Decision:
    return Decision(action, (Reason("mine", Outcome.LIMIT_REACHED, "no"),), delay_ns=MS)


def holding_until(until_ns: int, then: Decision | None = None) -> CheckCall:
    return lambda op, now_ns: answer(Action.DELAY) if now_ns < until_ns else then


def operation(kind: OperationKind) -> Operation:
    return Operation(kind, "/default/orders", client="a", messages=1, bytes=10, largest=10)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("then", [None, answer(Action.REJECT)], ids=["goes on", "is refused"])
def test_a_hold_is_counted_once_from_the_first_answer_to_the_last(
    make_gate: MakeGate, state: TopicState, kind: OperationKind, then: Decision | None
) -> None:
    gate = make_gate([Check("mine", KINDS, holding_until(40 * MS, then), Stage.RATE)])
    op = operation(kind)
    for now_ms in (0, 10, 20, 39):
        assert gate.decide(op, now_ms * MS) is not None
    assert not state.holds
    gate.decide(op, 45 * MS)

    times = state.holds[kind]
    assert times.total_ns == pytest.approx(45 * MS, abs=1)
    assert [slot for slot, count in enumerate(times.counts) if count] == [BOUNDS_NS.index(50 * MS)]
    assert (op.held_ns, op.waiter) == (0, None)
    gate.decide(op, 50 * MS)  # the same operation again, which is not held now
    assert sum(times.counts) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_client_that_goes_away_ends_its_hold(
    make_gate: MakeGate, state: TopicState, kind: OperationKind
) -> None:
    gate = make_gate([Check("mine", KINDS, holding_until(1_000 * MS), Stage.RATE)])
    op = operation(kind)
    gate.decide(op, 5 * MS)
    gate.abandon(op, 8 * MS)
    gate.abandon(op, 9 * MS)
    assert (state.holds[kind].total_ns, sum(state.holds[kind].counts)) == (3 * MS, 1)


def test_operations_that_are_never_held_have_no_times(make_gate: MakeGate, state: TopicState) -> None:
    gate = make_gate([])
    gate.publish(operation(OperationKind.PUBLISH), 0)
    assert not state.holds


@given(st.lists(st.integers(0, 60_000 * MS), max_size=50))
def test_each_slot_counts_the_values_within_its_bounds(held: list[int]) -> None:
    times = HoldTimes()
    for held_ns in held:
        times.add(held_ns)
    assert (sum(times.counts), times.total_ns, len(times.counts)) == (len(held), sum(held), HOLD_SLOTS)
    for slot, bound_ns in enumerate(BOUNDS_NS):
        assert sum(times.counts[: slot + 1]) == sum(held_ns <= bound_ns for held_ns in held)
