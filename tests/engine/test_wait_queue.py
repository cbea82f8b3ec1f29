"""Held operations: first in, first out, fair, bounded, never stuck."""

import heapq
from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluicegate.engine.bucket import SECOND_NS, DualBucket
from sluicegate.engine.wait_queue import LONGEST_WAIT_NS, PATIENCE_NS, RETRY_NS, Hold, Waiter, WaitQueue
from sluicegate.model import Decision, Operation, OperationKind
from sluicegate.model.decision import Action

MS = 1_000_000


def publish(messages: int = 1, nbytes: int = 100, producer: str = "p") -> Operation:
    return Operation(OperationKind.PUBLISH, "t", producer=producer, messages=messages, bytes=nbytes)


def drained(rate: float = 10, bytes_per_s: float = 0) -> WaitQueue:
    """A queue over an empty bucket."""
    bucket = DualBucket(rate, bytes_per_s, 1.0, 0)
    bucket.charge(int(rate), int(bytes_per_s), 0)
    return WaitQueue(bucket)


def test_operations_pass_at_once_while_tokens_last() -> None:
    queue = WaitQueue(DualBucket(2, 0, 1.0, 0))
    op = publish()

    assert queue.take(op, 0) == 0
    assert op.waiter is None
    assert queue.waiting == 0


def test_a_held_operation_keeps_its_place_and_is_charged_once() -> None:
    queue = drained(10)
    op = publish()

    wait = queue.take(op, 0)
    assert wait == pytest.approx(100 * MS, abs=1)
    waiter = op.waiter
    assert queue.take(op, 50 * MS) == pytest.approx(50 * MS, abs=1)
    assert op.waiter is waiter
    assert queue.take(op, wait) == 0
    assert op.waiter is None
    assert queue.bucket.balance(wait)[0] == pytest.approx(0, abs=1e-6)


def test_later_waiters_never_overtake() -> None:
    queue = drained(10)
    first, second, third = publish(), publish(3), publish()

    assert queue.take(first, 0) == pytest.approx(100 * MS, abs=1)
    assert queue.take(second, 0) == pytest.approx(400 * MS, abs=1)
    assert queue.take(third, 0) == pytest.approx(500 * MS, abs=1)
    # The bucket has enough for the third by now, but two are ahead of it.
    assert queue.take(third, 200 * MS) > 0
    assert queue.take(publish(), 500 * MS) > 0
    assert queue.take(first, 500 * MS) == 0
    assert queue.take(second, 500 * MS) == 0
    assert queue.take(third, 500 * MS + 5) == 0


def test_waits_are_at_most_a_second_and_never_a_busy_loop() -> None:
    queue = drained(1)
    first = publish()
    queue.take(first, 0)
    far = [publish() for _ in range(20)]

    assert {queue.take(op, 0) for op in far[5:]} == {LONGEST_WAIT_NS}
    # The first could pass but has not asked: the second comes back shortly, not at once.
    assert queue.take(far[5], 30 * SECOND_NS // 10) >= RETRY_NS


def test_leaving_the_queue_charges_nothing_and_moves_the_others_up() -> None:
    queue = drained(10)
    ops = [publish(producer=str(number)) for number in range(4)]
    for op in ops:
        queue.take(op, 0)

    gone = ops[1].waiter
    assert isinstance(gone, Waiter)
    gone.leave()
    gone.leave()
    assert gone.queue is None
    assert queue.waiting == 3

    passed = []
    now_ns = 0
    while queue.waiting:
        now_ns += 100 * MS + 1
        for op in (ops[0], ops[2], ops[3]):
            if op.waiter is not None and queue.take(op, now_ns) == 0:
                passed.append(op.producer)
    assert passed == ["0", "2", "3"]
    assert now_ns <= 310 * MS


@pytest.mark.parametrize("leaver", [0, 1, 2])
def test_any_waiter_may_leave(leaver: int) -> None:
    queue = drained(10)
    ops = [publish(producer=str(number)) for number in range(3)]
    for op in ops:
        queue.take(op, 0)
    leave(ops.pop(leaver))

    now_ns = SECOND_NS
    assert [queue.take(op, now_ns) for op in ops] == [0, 0]
    assert queue.first is None
    assert queue.take(publish(), now_ns) == 0


def test_a_silent_waiter_does_not_block_the_others() -> None:
    queue = drained(10)
    silent, patient = publish(producer="silent"), publish(producer="patient")
    queue.take(silent, 0)
    queue.take(patient, 0)

    now_ns = 0
    while queue.take(patient, now_ns) > 0:
        now_ns += SECOND_NS
    assert PATIENCE_NS < now_ns <= PATIENCE_NS + 2 * SECOND_NS
    # The silent one lost its place and starts anew, here with a full bucket before it.
    assert queue.take(silent, now_ns + SECOND_NS) == 0
    assert queue.waiting == 0


@pytest.mark.seed("S1-067")
def test_a_frame_above_the_bucket_passes_when_it_is_full_and_delays_the_next() -> None:
    queue = WaitQueue(DualBucket(0, 1000, 1.0, 0))
    assert queue.take(publish(nbytes=500), 0) == 0
    large, small = publish(nbytes=3000), publish(nbytes=1)

    assert queue.take(large, 0) == pytest.approx(500 * MS, abs=1)
    assert queue.take(small, 0) == LONGEST_WAIT_NS
    assert queue.take(large, 500 * MS + 1) == 0
    assert queue.take(small, 2400 * MS) > 0
    assert queue.take(small, 2502 * MS) == 0


@pytest.mark.seed("S1-024")
def test_a_rate_change_reaches_waiters() -> None:
    queue = drained(1)
    op = publish()
    assert queue.take(op, 0) == LONGEST_WAIT_NS

    queue.bucket.reconfigure(1000, 0, 1.0, 100 * MS)

    assert queue.take(op, 101 * MS) == 0


def test_an_operation_held_for_another_reason_queues_and_keeps_its_decision() -> None:
    queue = drained(10)
    op = publish()
    held = Waiter()
    held.decision = Decision(Action.DELAY, ())
    op.waiter = held

    assert queue.take(op, 0) > 0
    assert isinstance(op.waiter, Waiter)
    assert op.waiter.queue is queue
    assert op.waiter.decision is held.decision


def test_a_waiter_in_two_queues_keeps_both_places_until_each_is_given_up() -> None:
    first, second = drained(10), drained(10)
    op = publish()
    first.take(op, 0)
    assert isinstance(op.waiter, Waiter)
    op.waiter.decision = held = Decision(Action.DELAY, ())

    second.take(op, 0)

    assert (first.waiting, second.waiting) == (1, 1)
    assert second.take(op, 100 * MS + 1) == 0
    assert (first.waiting, second.waiting) == (1, 0)
    assert isinstance(op.waiter, Waiter)
    assert op.waiter.decision is held
    assert first.take(op, 100 * MS + 1) == 0
    assert op.waiter is None


def test_peeking_charges_nothing_and_keeps_the_place() -> None:
    queue = drained(10)
    op = publish()

    assert queue.ready(op, 0) == pytest.approx(100 * MS, abs=1)
    assert queue.ready(op, 100 * MS + 1) == 0
    assert queue.waiting == 1
    assert queue.bucket.balance(100 * MS + 1)[0] == pytest.approx(1, abs=1e-6)
    other = publish()
    assert queue.ready(other, 100 * MS + 1) > 0  # not its turn while the first one is there
    leave(op)
    assert queue.ready(other, 100 * MS + 2) == 0


def leave(op: Operation) -> None:
    """What a gate does when it gives up an operation."""
    if isinstance(op.waiter, Waiter):
        op.waiter.leave()
    op.waiter = None


def hold(op: Operation, now_ns: int) -> None:
    """What a gate does when it holds an operation."""
    assert isinstance(op.waiter, Waiter)
    op.waiter.mark_held(now_ns)


def test_a_waiter_blocked_in_another_queue_lets_those_behind_it_pass() -> None:
    mine, crowded = WaitQueue(DualBucket(10, 0, 1.0, 0)), drained(1)
    blocker, op, behind = publish(), publish(), publish()
    crowded.take(blocker, 0)
    mine.bucket.charge(10, 0, 0)
    assert mine.ready(op, 0) > 0
    hold(op, 0)

    now_ns = 500 * MS
    assert mine.ready(behind, now_ns) > 0  # the first one's turn, as nothing else holds it
    assert mine.ready(op, now_ns) == 0
    assert crowded.ready(op, now_ns) > 0
    hold(op, now_ns)

    assert mine.ready(behind, now_ns) == 0
    # Once it is first there too, its need is reserved, and nothing else.
    now_ns = 1000 * MS + 1
    assert crowded.take(blocker, now_ns) == 0
    leave(behind)
    assert mine.ready(op, now_ns) == 0
    assert crowded.ready(op, now_ns) > 0
    hold(op, now_ns)
    mine.bucket.charge(int(mine.bucket.balance(now_ns)[0]) - 1, 0, now_ns)
    assert mine.ready(behind, now_ns) > 0
    assert mine.ready(behind, now_ns + 100 * MS) == 0
    assert mine.ready(op, now_ns + 100 * MS) == 0


def test_no_tokens_are_saved_up_ahead_of_an_earlier_waiter() -> None:
    mine, other = drained(10), drained(1)
    early, late = publish(), publish()
    other.ready(early, 0)
    mine.ready(late, 0)
    other.ready(late, 0)
    hold(late, 0)
    assert isinstance(late.waiter, Waiter)
    place = late.waiter.in_queue(mine)
    assert place is not None
    place.blocked, place.saves = False, True

    assert mine.ready(early, 100 * MS + 1) == 0
    assert mine.ready(publish(), 100 * MS + 1) > 0


def test_an_operation_held_without_a_queue_blocks_no_waiter() -> None:
    queue = drained(10)
    op, behind = publish(), publish()
    queue.ready(op, 0)
    hold(op, 0)

    hold(op, 200 * MS)  # by a pause: no queue was asked

    assert queue.ready(behind, 200 * MS) == 0


@settings(max_examples=60, deadline=None)
@given(
    rates=st.tuples(st.integers(5, 200), st.integers(5, 200), st.integers(5, 200)),
    users=st.lists(st.sets(st.integers(0, 2), min_size=1, max_size=3), min_size=2, max_size=8),
)
def test_no_waiter_starves_whichever_queues_it_needs(
    rates: tuple[int, int, int], users: list[set[int]]
) -> None:
    queues = [drained(rate) for rate in rates]
    ops = [publish(producer=str(number)) for number in range(len(users))]
    turns, admitted = Counter[int](), Counter[int]()
    wakes = [(0, number) for number in range(len(users))]
    end_ns = 5 * SECOND_NS
    while wakes[0][0] < end_ns:
        now_ns, number = heapq.heappop(wakes)
        op, needed = ops[number], [queues[place] for place in sorted(users[number])]
        wait = next((wait for queue in needed if (wait := queue.ready(op, now_ns))), 0)
        if wait:
            hold(op, now_ns)
        else:
            leave(op)
            for queue in needed:
                queue.bucket.charge(op.messages, 0, now_ns)
            turns[number] += 1
            admitted.update(users[number])
        heapq.heappush(wakes, (now_ns + max(wait, MS), number))

    for place, rate in enumerate(rates):
        assert admitted[place] <= rate * end_ns / SECOND_NS
    for number, needs in enumerate(users):
        # A quarter of what it would get if all others needed the scarcest of what it needs.
        assert (
            turns[number] >= 0.25 * min(rates[place] for place in needs) / len(users) * end_ns / SECOND_NS - 1
        )


def saturate(
    queue: WaitQueue, producers: list[tuple[int, int]], until_ns: int, lag_ns: int = 0
) -> list[tuple[int, int, int, int]]:
    """Let producers publish without end, each woken late; gives (ns, producer, messages, bytes)."""
    ops = [publish(messages, nbytes, str(number)) for number, (messages, nbytes) in enumerate(producers)]
    wakes = [(0, number) for number in range(len(ops))]
    admitted = []
    while wakes:
        now_ns, number = heapq.heappop(wakes)
        if now_ns >= until_ns:
            continue
        op = ops[number]
        wait = queue.take(op, now_ns)
        if wait == 0:
            admitted.append((now_ns, number, op.messages, op.bytes))
            heapq.heappush(wakes, (now_ns + 1000, number))
        else:
            heapq.heappush(wakes, (now_ns + wait + lag_ns, number))
    return admitted


@pytest.mark.seed("S1-060", "S1-129")
def test_equal_producers_share_equally_and_the_rate_is_met() -> None:
    queue = WaitQueue(DualBucket(1000, 0, 1.0, 0))

    admitted = saturate(queue, [(5, 500)] * 8, 20 * SECOND_NS, lag_ns=300_000)

    shares = list(Counter(number for _, number, _, _ in admitted).values())
    jain = sum(shares) ** 2 / (len(shares) * sum(share**2 for share in shares))
    assert jain >= 0.999
    total = sum(messages for _, _, messages, _ in admitted)
    assert total == pytest.approx(1000 * 20 + 1000, rel=0.001)


def test_large_needs_do_not_starve_a_small_one() -> None:
    queue = WaitQueue(DualBucket(0, 10_000, 1.0, 0))

    admitted = saturate(queue, [(1, 9_000), (1, 9_000), (1, 10)], 30 * SECOND_NS)

    turns = Counter(number for _, number, _, _ in admitted)
    assert turns[2] >= turns[0] - 2


@settings(max_examples=60, deadline=None)
@given(
    rate=st.integers(1, 500),
    bytes_per_s=st.integers(100, 10**6),
    burst=st.sampled_from([0.1, 1.0, 2.0]),
    producers=st.lists(st.tuples(st.integers(1, 50), st.integers(1, 50_000)), min_size=1, max_size=6),
    lag_ms=st.integers(0, 50),
)
def test_no_window_of_admissions_exceeds_rate_and_burst(
    rate: int, bytes_per_s: int, burst: float, producers: list[tuple[int, int]], lag_ms: int
) -> None:
    queue = WaitQueue(DualBucket(rate, bytes_per_s, burst, 0))

    admitted = saturate(queue, producers, 4 * SECOND_NS, lag_ms * MS)

    for amounts, limit, largest in (
        ([(now_ns, messages) for now_ns, _, messages, _ in admitted], rate, max(m for m, _ in producers)),
        ([(now_ns, nbytes) for now_ns, _, _, nbytes in admitted], bytes_per_s, max(b for _, b in producers)),
    ):
        per_ns = Fraction(limit, SECOND_NS)
        total, lowest, worst = 0, Fraction(0), Fraction(0)
        for now_ns, amount in amounts:
            lowest = min(lowest, total - per_ns * now_ns)
            total += amount
            worst = max(worst, total - per_ns * now_ns - lowest)
        assert worst <= max(limit * burst, largest) * (1 + 1e-9)


@settings(max_examples=80, deadline=None)
@given(
    actions=st.lists(
        st.tuples(st.sampled_from(["ask", "leave"]), st.integers(0, 5), st.integers(0, 400)), max_size=60
    )
)
def test_order_is_kept_whoever_comes_and_goes(actions: list[tuple[str, int, int]]) -> None:
    queue = drained(20)
    ops = [publish(2, 0, str(number)) for number in range(6)]
    expected: list[int] = []
    served = (-1, 0)
    now_ns = 0
    for action, number, step_ms in actions:
        now_ns += step_ms * MS
        op = ops[number]
        if action == "leave":
            leave(op)
            expected = [other for other in expected if other != number]
        else:
            passes = queue.take(op, now_ns) == 0
            # Those who kept silent too long lose their place without being told.
            expected = [
                other
                for other in expected
                if other == number or getattr(ops[other].waiter, "queue", None) is queue
            ]
            if passes and number in expected:
                assert expected.pop(0) == number
                served = (number, now_ns)
            elif passes:  # no operation waits, or its turn goes on
                assert not expected or served == (number, now_ns)
            elif number not in expected:
                expected.append(number)
        assert queue.waiting == len(expected)


@pytest.mark.parametrize("holders", [1, 2, 4, 8])
def test_the_rate_does_not_depend_on_how_often_waiters_are_woken(holders: int) -> None:
    rate, lag_ns, end_ns = 10_000, MS, 5 * SECOND_NS
    queue = drained(rate)
    operations = [publish(producer=str(number)) for number in range(holders)]
    passed = Counter[str]()
    wakes = [(0, number) for number in range(holders)]
    while wakes[0][0] < end_ns:
        now_ns, number = heapq.heappop(wakes)
        operation = operations[number]
        # A holder that is woken sends on what it may, one message after the other.
        while (wait := queue.take(operation, now_ns)) == 0:
            passed[operation.producer] += 1
        heapq.heappush(wakes, (now_ns + max(wait, MS) + lag_ns, number))

    assert sum(passed.values()) == pytest.approx(rate * end_ns / SECOND_NS, rel=0.002)
    assert sum(passed.values()) <= rate * end_ns / SECOND_NS
    assert max(passed.values()) - min(passed.values()) <= 0.02 * rate


def test_an_admitted_operation_queues_again_behind_the_waiters() -> None:
    queue = drained(10)
    first, second = publish(producer="a"), publish(producer="b")
    queue.take(first, 0)
    queue.take(second, 0)

    assert queue.take(first, 100 * MS) == 0
    assert queue.take(first, 100 * MS) > 0  # nothing is saved up
    assert queue.take(second, 200 * MS) == 0
    assert queue.take(first, 300 * MS) == 0
    assert queue.take(first, 300 * MS + 1) > 0  # the turn is over, whatever has been saved up


def test_giving_up_leaves_all_queues() -> None:
    queues = [drained(), drained()]
    op = publish()
    for queue in queues:
        assert queue.ready(op, 0) > 0
    assert [queue.waiting for queue in queues] == [1, 1]

    assert isinstance(op.waiter, Waiter)
    op.waiter.leave()

    assert [queue.waiting for queue in queues] == [0, 0]


def test_the_only_remaining_waiter_is_not_overtaken() -> None:
    queue = drained(10)
    first, second, third = publish(), publish(), publish()
    for op in (first, second, third):
        assert queue.ready(op, 0) > 0
        hold(op, 0)

    leave(first)

    assert queue.ready(third, 100 * MS + 1) > 0
    assert queue.ready(second, 100 * MS + 1) == 0


def test_a_waiter_in_another_queue_passes_an_empty_queue() -> None:
    elsewhere, queue = drained(10), WaitQueue(DualBucket(10, 0, 1.0, 0))
    op = publish()
    assert elsewhere.ready(op, 0) > 0

    assert queue.take(op, 0) == 0

    assert (elsewhere.waiting, queue.waiting) == (1, 0)
    assert queue.bucket.balance(0)[0] == 9


def test_a_hold_lasts_until_its_deadline_from_the_first_delay_on() -> None:
    hold = Hold(10 * SECOND_NS)
    delay = Decision(Action.DELAY, (), delay_ns=4 * SECOND_NS)
    assert hold.wait_ns(Decision(Action.REJECT, ()), SECOND_NS) == 0
    asked = [hold.wait_ns(delay, seconds * SECOND_NS) for seconds in (5, 13, 15, 16)]
    assert asked == [4 * SECOND_NS, 2 * SECOND_NS, 0, 0]


def test_a_held_request_is_not_decided_again_at_once() -> None:
    delay = Decision(Action.DELAY, ())
    assert Hold(SECOND_NS).wait_ns(delay, SECOND_NS) == 1_000_000
    assert Hold(SECOND_NS, least_ns=5).wait_ns(delay, SECOND_NS) == 5
