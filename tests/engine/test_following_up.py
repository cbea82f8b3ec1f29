"""What a gate does after a check has answered: which checks run next, and what is counted."""

from collections.abc import Callable

import pytest
from tests.engine.lab import TOPIC, KeepingSink, MakeGate

from sluicegate.engine.bucket import DualBucket
from sluicegate.engine.check import Check
from sluicegate.engine.gate import Gate
from sluicegate.engine.state import COUNTERS, TopicState
from sluicegate.engine.wait_queue import WaitQueue
from sluicegate.model import Action, Decision, Operation, OperationKind, Outcome, Reason

NOW_NS = 9
COUNTED = ("alone_wire_bytes", *COUNTERS)


def operation(kind: OperationKind = OperationKind.PUBLISH, messages: int = 1, nbytes: int = 100) -> Operation:
    return Operation(
        kind,
        TOPIC.full,
        client="a",
        messages=messages,
        bytes=nbytes,
        largest=nbytes // messages,
        reliable=False,
    )


def decision(action: Action) -> Decision:
    delay_ns = 5 if action is Action.DELAY else 0
    return Decision(action, (Reason("mine", Outcome.LIMIT_REACHED, "no"),), delay_ns=delay_ns)


class Asked:
    """A check that answers, and keeps when it was asked."""

    def __init__(self, answer: Action | None = None) -> None:
        self.answer = answer
        self.at: list[int] = []

    def __call__(self, op: Operation, now_ns: int) -> Decision | None:
        self.at.append(now_ns)
        return None if self.answer is None else decision(self.answer)


@pytest.mark.parametrize("kind", [OperationKind.PUBLISH, OperationKind.DISPATCH, OperationKind.ACKNOWLEDGE])
@pytest.mark.parametrize("place", range(5))
@pytest.mark.parametrize("answer", [Action.ALLOW, Action.REWRITE])
def test_after_an_answer_that_stops_nothing_each_check_runs_once(
    make_gate: MakeGate, kind: OperationKind, place: int, answer: Action
) -> None:
    asked = [Asked(answer if number == place else None) for number in range(5)]
    gate = make_gate([Check("mine", (kind,), one) for one in asked])

    told = gate.decide(operation(kind), NOW_NS)

    assert [one.at for one in asked] == [[NOW_NS]] * 5
    assert (None if told is None else told.action) == (answer if answer is Action.REWRITE else None)


@pytest.mark.parametrize("kind", [OperationKind.PUBLISH, OperationKind.DISPATCH])
@pytest.mark.parametrize("place", range(5))
def test_after_an_observed_answer_each_check_runs_once(
    make_gate: MakeGate, sink: KeepingSink, kind: OperationKind, place: int
) -> None:
    asked = [Asked(Action.REJECT if number == place else None) for number in range(5)]
    gate = make_gate([Check("mine", (kind,), one) for one in asked], observe_only=True)

    assert gate.decide(operation(kind), NOW_NS) is None

    assert [one.at for one in asked] == [[NOW_NS]] * 5
    assert [one.observed for one in sink.decisions] == [True]


def counted(state: TopicState) -> dict[str, object]:
    return {name: getattr(state, name) for name in COUNTED} | {
        "sizes": list(state.size_counts),
        "batches": list(state.batch_counts),
    }


@pytest.mark.parametrize(
    "way", [lambda gate: gate.decide, lambda gate: gate.judge], ids=["compiled", "careful"]
)
def test_allowed_operations_count_by_kind_and_size(
    make_gate: MakeGate, state: TopicState, way: Callable[[Gate], Callable[[Operation, int], object]]
) -> None:
    decide = way(make_gate([]))
    none = counted(state)

    for _ in range(2):
        for op in (
            operation(nbytes=7),
            operation(messages=2, nbytes=60),
            operation(OperationKind.DISPATCH, 3, 30),
            operation(OperationKind.ACKNOWLEDGE),
        ):
            decide(op, NOW_NS)

    sizes, batches = [0] * len(state.size_counts), [0] * len(state.batch_counts)
    sizes[(7).bit_length()], batches[(60).bit_length()] = 2, 2
    expected = none | {
        "alone_bytes": 14,
        "alone_wire_bytes": 14,
        "batched_messages": 4,
        "batched_bytes": 120,
        "dispatched_messages": 6,
        "dispatched_bytes": 60,
        "allowed_ops": 8,
        "allowed_messages": 6,
        "allowed_bytes": 134,
        "sizes": sizes,
        "batches": batches,
    }
    assert counted(state) == {name: expected[name] for name in none}


@pytest.mark.parametrize(
    ("action", "counter"),
    [(Action.REJECT, "rejected"), (Action.DROP, "dropped"), (Action.DELAY, "delayed")],
)
@pytest.mark.parametrize("observe_only", [False, True])
def test_each_answer_that_stops_an_operation_is_counted(
    make_gate: MakeGate, state: TopicState, action: Action, counter: str, observe_only: bool
) -> None:
    gate = make_gate([Check("mine", (OperationKind.PUBLISH,), Asked(action))], observe_only=observe_only)

    for _ in range(2):
        gate.publish(operation(), NOW_NS)

    counts = {name: getattr(state, name) for name in ("rejected", "dropped", "delayed", "observed")}
    assert {name: count for name, count in counts.items() if count} == {
        "observed" if observe_only else counter: 2
    }


def test_an_operation_held_again_gets_the_same_decision(make_gate: MakeGate) -> None:
    gate, op = make_gate([Check("mine", (OperationKind.PUBLISH,), Asked(Action.DELAY))]), operation()

    first, second = (gate.publish(op, now_ns) for now_ns in (1, 2))

    assert first is not None
    assert second is not None
    assert (second.id, second.policy_version) == (first.id, first.policy_version) == ("d1", 7)


def test_an_operation_admitted_by_judge_leaves_its_queue(make_gate: MakeGate) -> None:
    line, op = WaitQueue(DualBucket(10, 0, 1.0, 0)), operation()
    line.bucket.charge(10, 0, 0)
    assert line.ready(op, 0) > 0
    assert line.waiting == 1

    assert make_gate([]).judge(op, NOW_NS) is None

    assert (line.waiting, op.waiter) == (0, None)


def test_an_operation_held_without_a_queue_ends_its_hold_in_judge(
    make_gate: MakeGate, state: TopicState
) -> None:
    op = operation()
    op.held_ns = 5

    assert make_gate([]).judge(op, NOW_NS) is None

    assert (state.holds[op.kind].total_ns, op.held_ns) == (4, 0)


def test_a_check_that_never_raised_is_called_unguarded(make_gate: MakeGate) -> None:
    asked = [Asked() for _ in range(4)]
    gate = make_gate([Check("mine", (OperationKind.PUBLISH, OperationKind.DISPATCH), one) for one in asked])

    assert [gate._first, gate._second, gate._third] == asked[:3]
    assert list(gate._dispatch_calls) == asked
