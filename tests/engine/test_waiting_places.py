"""Places in wait queues one by one: estimates, turns, reservations, and how places are lost and given up."""

import pytest
from tests.engine.test_wait_queue import MS, drained, hold, leave, publish

from sluicegate.engine.bucket import SECOND_NS, DualBucket
from sluicegate.engine.wait_queue import PATIENCE_NS, RETRY_NS, Waiter, WaitQueue
from sluicegate.model import Decision
from sluicegate.model.decision import Action


def test_an_operation_with_enough_tokens_is_ready_and_needs_no_place() -> None:
    queue = WaitQueue(DualBucket(2, 0, 1.0, 0))
    op = publish(2)

    assert queue.ready(op, 0) == 0
    assert (op.waiter, queue.waiting, queue.bucket.balance(0)[0]) == (None, 0, 2)
    assert queue.ready(publish(3), 0) == 0  # on a full bucket, as no more than that ever comes together


@pytest.mark.parametrize("kind", ["messages", "bytes"])
def test_a_waiter_waits_for_the_needs_of_those_before_it(kind: str) -> None:
    rates = (1_000, 0) if kind == "messages" else (0, 1_000)
    queue = drained(*rates)
    ops = [publish(need, need) for need in (100, 200, 300, 50)]

    assert [queue.take(op, 0) for op in ops[:3]] == [pytest.approx(ms * MS, abs=2) for ms in (100, 300, 600)]
    assert queue.take(ops[0], 100 * MS + 1) == 0
    assert queue.take(ops[2], 100 * MS + 1) == pytest.approx(500 * MS, abs=2)
    assert queue.take(ops[3], 100 * MS + 1) == pytest.approx(550 * MS, abs=2)
    leave(ops[1])
    assert queue.take(ops[3], 100 * MS + 1) == pytest.approx(350 * MS, abs=2)


def test_a_waiter_whose_tokens_are_there_tries_again_shortly() -> None:
    queue = drained(10)
    first, second = publish(), publish()
    queue.take(first, 0)

    assert queue.take(second, 199 * MS) == pytest.approx(RETRY_NS, abs=2)
    assert queue.take(second, 500 * MS) == RETRY_NS


def test_a_silent_waiter_keeps_its_place_for_five_seconds() -> None:
    queue = drained(10)
    silent, patient = publish(), publish()
    queue.take(silent, 7)
    queue.take(patient, 7)

    assert queue.take(patient, 7 + PATIENCE_NS) > 0
    assert queue.take(patient, 7 + PATIENCE_NS + 1) == 0
    assert queue.waiting == 0


def test_an_attempt_counts_whether_it_is_admitted_or_not() -> None:
    queue = drained(10)
    first, second = publish(), publish()
    queue.ready(first, 0)
    queue.ready(second, 0)
    assert queue.ready(first, SECOND_NS) == 0  # and keeps its place until the gate admits it

    assert queue.ready(second, SECOND_NS + PATIENCE_NS) > 0
    assert queue.ready(second, SECOND_NS + PATIENCE_NS + 1) == 0


def test_an_operation_proceeds_within_its_turn_as_long_as_there_are_tokens() -> None:
    queue = drained(10)
    op, other = publish(), publish()
    queue.take(op, 0)
    queue.take(other, 0)

    now_ns = 300 * MS + 1
    assert [queue.take(op, now_ns) for _ in range(3)] == [0, 0, 0]
    assert queue.take(op, now_ns) > 0
    assert queue.take(publish(), now_ns) > 0
    assert op.waiter is not None


def test_the_turn_of_an_operation_ends_with_the_clock() -> None:
    queue = drained(10)
    ops = [publish(), publish()]
    for op in ops:
        queue.take(op, 0)
    assert queue.take(ops[0], SECOND_NS) == 0
    assert queue.take(ops[0], SECOND_NS + 1) > 0
    assert queue.take(publish(), SECOND_NS) > 0


def test_a_waiter_held_elsewhere_is_not_silent() -> None:
    mine, other = drained(10), drained(1)
    other.bucket.charge(100, 0, 0)
    op, behind = publish(), publish()
    assert mine.ready(op, 0) > 0
    for seconds in range(1, 8):
        now_ns = seconds * SECOND_NS
        assert mine.ready(op, now_ns) == 0
        assert other.ready(op, now_ns) > 0
        hold(op, now_ns)
    assert (mine.waiting, other.waiting) == (1, 1)
    mine.bucket.charge(int(mine.bucket.balance(7 * SECOND_NS)[0]), 0, 7 * SECOND_NS)

    assert mine.ready(behind, 7 * SECOND_NS + 100 * MS + 1) > 0  # the need of the first is reserved
    assert mine.ready(behind, 7 * SECOND_NS + 200 * MS + 1) == 0
    assert mine.waiting == 2


def test_the_need_of_one_waiter_at_a_time_is_reserved() -> None:
    mine = drained(10)
    waiting = [publish(), publish()]
    for op in waiting:
        mine.ready(op, 0)
        assert isinstance(op.waiter, Waiter)
        op.waiter.saves = True
    behind = publish()

    assert mine.ready(behind, 199 * MS) > 0
    assert mine.ready(behind, 200 * MS + 1) == 0


def test_places_in_three_queues_are_given_up_one_by_one() -> None:
    queues = [drained(), drained(), drained()]
    op = publish()
    for queue in queues:
        queue.ready(op, 0)
    assert isinstance(op.waiter, Waiter)
    op.waiter.decision = held = Decision(Action.DELAY, ())
    since = op.waiter.since
    assert {place.since for queue in queues if (place := op.waiter.in_queue(queue)) is not None} == {since}

    now_ns = 100 * MS + 1
    assert queues[1].take(op, now_ns) == 0
    assert [queue.waiting for queue in queues] == [1, 0, 1]
    assert op.waiter.decision is held
    assert op.waiter.in_queue(queues[1]) is None
    assert queues[2].take(op, now_ns) == 0
    assert [queue.waiting for queue in queues] == [1, 0, 0]
    assert op.waiter.decision is held
    assert queues[0].take(op, now_ns) == 0
    assert op.waiter is None


def test_operations_are_numbered_as_they_are_held() -> None:
    numbers = [Waiter().since for _ in range(3)]
    assert numbers == list(range(numbers[0], numbers[0] + 3))


def test_a_new_place_blocks_those_behind_it() -> None:
    place = Waiter()
    assert (place.blocked, place.saves, place.decision, place.other, place.queue) == (
        False,
        False,
        None,
        None,
        None,
    )


def test_a_place_of_another_queue_is_not_given_up() -> None:
    queues = [drained(), drained()]
    op = publish()
    queues[0].ready(op, 0)
    assert isinstance(op.waiter, Waiter)

    queues[1].drop(op.waiter)
    assert queues[0].waiting == 1
    queues[0].drop(op.waiter)
    queues[0].drop(op.waiter)
    assert (queues[0].waiting, queues[0].first) == (0, None)


def test_waiters_in_the_middle_may_leave_one_after_another() -> None:
    queue = drained(10)
    ops = [publish() for _ in range(5)]
    for op in ops:
        queue.take(op, 0)

    for leaver in (2, 1, 3):
        leave(ops[leaver])

    assert queue.first is ops[0].waiter
    assert queue.take(ops[4], 200 * MS + 1) > 0
    assert queue.take(ops[0], 200 * MS + 1) == 0
    assert queue.take(ops[4], 200 * MS + 1) == 0


def test_a_place_that_was_lost_is_not_kept() -> None:
    mine, other = drained(10), drained(10)
    op, patient = publish(), publish()
    mine.ready(op, 0)
    other.ready(op, 0)
    assert mine.ready(patient, PATIENCE_NS + 1) == 0
    assert (mine.waiting, other.waiting) == (0, 1)

    assert other.take(op, PATIENCE_NS + 1) == 0

    assert op.waiter is None


def test_the_queue_that_holds_an_operation_is_the_one_that_it_had_to_wait_in() -> None:
    """Whichever of the two it joined first."""
    mine, other = drained(10), drained(1)
    other.bucket.charge(100, 0, 0)
    op, behind = publish(), publish()
    other.ready(op, 0)
    mine.ready(op, 0)
    now_ns = 500 * MS
    assert mine.ready(op, now_ns) == 0
    assert other.ready(op, now_ns) > 0
    hold(op, now_ns)

    assert mine.ready(behind, now_ns) == 0  # four of the five tokens are nobody's
    assert other.ready(behind, now_ns) > 0


def test_a_waiter_behind_a_blocked_one_is_not_overtaken() -> None:
    queue = drained(10)
    blocked, second, third = publish(), publish(), publish()
    for op in (blocked, second):
        queue.ready(op, 0)
    assert isinstance(blocked.waiter, Waiter)
    blocked.waiter.blocked = True

    assert queue.ready(third, SECOND_NS) > 0
    assert queue.ready(second, SECOND_NS) == 0


def test_bytes_are_reserved_too() -> None:
    queue = drained(0, 1_000)
    first, behind = publish(nbytes=300), publish(nbytes=100)
    queue.ready(first, 0)
    assert isinstance(first.waiter, Waiter)
    first.waiter.saves = True

    assert queue.ready(behind, 399 * MS) > 0
    assert queue.ready(behind, 401 * MS) == 0
