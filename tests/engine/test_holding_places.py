"""The places of an operation that a gate holds: which of them others may pass, and which save tokens."""

from collections.abc import Iterator

from tests.engine.lab import MakeGate
from tests.engine.test_wait_queue import MS, drained, publish

from sluicegate.engine.check import Check, Stage
from sluicegate.engine.wait_queue import Waiter, WaitQueue
from sluicegate.model import Action, Decision, Operation, OperationKind, Outcome, Reason

REASON = Reason("rate", Outcome.LIMIT_REACHED, "no")


def waiting_in(queue: WaitQueue) -> Check:
    def check(op: Operation, now_ns: int) -> Decision | None:
        wait = queue.ready(op, now_ns)
        return Decision(Action.DELAY, (REASON,), delay_ns=wait) if wait else None

    return Check("rate", (OperationKind.PUBLISH,), check, Stage.RATE)


def places(op: Operation) -> Iterator[tuple[WaitQueue | None, bool, bool]]:
    """Each place's queue, whether others may pass it, and whether they may if they leave enough tokens."""
    place = op.waiter
    while isinstance(place, Waiter):
        yield place.queue, place.blocked, place.saves
        place = place.other


def test_others_pass_a_place_only_while_another_policy_holds_its_operation(make_gate: MakeGate) -> None:
    line, op, behind = drained(10), publish(), publish()
    pauses: list[Decision] = []
    pause = Check(
        "pause", (OperationKind.PUBLISH,), lambda op, now_ns: pauses[-1] if pauses else None, Stage.COUNT
    )
    gate = make_gate([pause, waiting_in(line)])

    assert gate.publish(op, 0) is not None
    assert list(places(op)) == [(line, False, False)]
    pauses.append(Decision(Action.DELAY, (REASON,), delay_ns=MS))
    assert gate.publish(op, 100 * MS + 1) is not None
    assert list(places(op)) == [(line, True, False)]
    assert line.take(behind, 100 * MS + 1) == 0
    pauses.clear()
    assert gate.publish(op, 150 * MS) is not None
    assert list(places(op)) == [(line, False, False)]


def test_an_operation_that_has_its_turn_in_one_queue_saves_tokens_in_the_other(make_gate: MakeGate) -> None:
    fast, slow, op = drained(10), drained(1), publish()
    gate = make_gate([waiting_in(fast), waiting_in(slow)])

    assert gate.publish(op, 0) is not None
    assert gate.publish(op, 100 * MS + 1) is not None
    assert list(places(op)) == [(slow, False, False), (fast, False, True)]
    fast.bucket.charge(5, 0, 100 * MS + 1)
    assert gate.publish(op, 150 * MS) is not None
    assert list(places(op)) == [(slow, False, True), (fast, False, False)]
