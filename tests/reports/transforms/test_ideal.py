"""`judge` and the tests' oracle against cases worked by hand, and against what must hold for all inputs."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reports import oracle
from tests.reports.oracle import TokenBucket

from sluicegate.engine.bucket import DualBucket
from sluicegate_reports.transforms import ideal
from sluicegate_reports.transforms.ideal import Judged

S = 1_000_000

requests = st.lists(st.tuples(st.integers(0, 20_000_000), st.integers(1, 30)), min_size=1, max_size=60).map(
    sorted
)
rates = st.integers(1, 50)
bursts = st.integers(1, 50)


def test_a_full_bucket_lets_its_burst_through_and_then_its_rate() -> None:
    # 2 a second, 3 at once: 3 of the 4 at the start; half a second brings one token, then one more.
    asked = [(0, 1), (0, 1), (0, 1), (0, 1), (S // 2, 1), (S // 2, 1), (S - 1, 1), (S, 1)]
    assert oracle.admissions(asked, rate=2, burst=3) == [True, True, True, False, True, False, False, True]


def test_an_idle_bucket_holds_no_more_than_its_burst() -> None:
    asked = [(0, 3), (100 * S, 3), (100 * S, 1)]
    assert oracle.admissions(asked, rate=2, burst=3) == [True, True, False]


def test_a_need_larger_than_the_bucket_passes_when_it_is_full_and_leaves_a_debt() -> None:
    # 5 of 3: a debt of 2, which takes a second at 2 a second; then it is empty, half a second for one more.
    asked = [(0, 5), (S, 1), (3 * S // 2, 1)]
    assert oracle.admissions(asked, rate=2, burst=3) == [True, False, True]
    bucket = TokenBucket(2, 3)
    bucket.charge(5, 0)
    assert [float(bucket.level(at_us)) for at_us in (0, S, 9 * S)] == [-2, 0, 3]


def test_a_rate_that_is_no_whole_number_is_kept_exactly() -> None:
    # A third of a message a second is one every three seconds, not a microsecond earlier.
    third = 1 / 4 + 1 / 8  # 0.375: 8 s for 3 messages
    asked = [(0, 1), (8 * S // 3, 1), (8 * S // 3 + 1, 1)]
    assert oracle.admissions(asked, third, burst=1) == [True, False, True]


@pytest.mark.parametrize(
    ("admitted", "worst"),
    [
        ([(0, 2)], 0),  # the burst itself
        ([(0, 3)], 1),  # one too many at once
        ([(0, 2), (S, 1)], 0),  # at the rate, after the burst
        ([(0, 1), (10 * S, 2), (10 * S, 1)], 1),  # what was idle is not saved up beyond the burst
        ([(0, 1), (S, 1)], -1),  # half of the bucket was never used
        ([(0, 2), (S // 2, 1)], Fraction(1, 2)),  # half a second too early
    ],
)
def test_overshoot_by_hand(admitted: list[tuple[int, int]], worst: Fraction) -> None:
    assert oracle.overshoot(admitted, rate=1, burst=2) == worst


def test_decisions_are_judged_by_what_the_gate_admitted() -> None:
    asked = [(0, 1, True), (0, 1, True), (0, 1, True), (0, 1, False), (S, 1, False), (2 * S, 1, False)]
    # The third is one too many: the gate had one more. At 1 s it has one, at 2 s one more: that was refused.
    assert ideal.judge(asked, rate=1, burst=2) == Judged(3, 3, 1, 1, 2)


def test_a_decision_that_is_right_within_the_resolution_is_not_wrong() -> None:
    asked = [(0, 1, True), (S - 1, 1, True), (2 * S, 1, False)]
    judged = ideal.judge(asked, rate=1, burst=1, slack_us=1)
    assert (judged.wrongly_admitted, judged.wrongly_refused) == (0, 0)


def test_a_rate_that_is_a_little_too_high_is_wrong_as_often_as_it_admits_too_many() -> None:
    # 100 a second and one in 500 more, for a minute after the burst: 12 messages, of 6,112.
    early = [(0, 1, True)] * 100 + [(round(n * S / 100.2), 1, True) for n in range(1, 6_013)]
    assert ideal.judge(early, rate=100, burst=100).wrongly_admitted == 12
    late = [(0, 1, True)] * 100 + [(round(n * S / 99.8), 1, True) for n in range(1, 5_989)]
    late = sorted(late + [(n * S // 100 + 1, 1, False) for n in range(1, 6_000)])
    assert ideal.judge(late, rate=100, burst=100).wrongly_refused == pytest.approx(12, abs=1)


@given(
    steps=st.lists(st.tuples(st.integers(0, S), st.integers(0, 5), st.booleans()), max_size=40),
    rate=st.sampled_from([0.3, 1, 2.5, 7]),
    burst=st.sampled_from([0.7, 1, 4]),
    slack_us=st.integers(0, S // 4),
)
def test_each_decision_is_judged_as_the_bucket_answers(
    steps: list[tuple[int, int, bool]], rate: float, burst: float, slack_us: int
) -> None:
    perfect = TokenBucket(rate, burst)
    asked: list[tuple[int, int, bool]] = []
    passed_all, refused_ideally, time_us = 0, 0, 0
    for after_us, amount, passed in steps:
        time_us += after_us if asked else 0
        asked.append((time_us, amount, passed))
        passed_all += passed
        refused_ideally += not perfect.take(amount, time_us)
    for full in (True, False):
        wrong = oracle.judged(asked, rate, burst, slack_us, full=full)
        judged = ideal.judge(asked, rate, burst, slack_us, full=full)
        assert judged == Judged(passed_all, len(asked) - passed_all, *wrong, refused_ideally)


@given(requests, rates, bursts)
def test_what_is_wrongly_admitted_is_at_least_the_excess_over_the_law(
    asked: list[tuple[int, int]], rate: int, burst: int
) -> None:
    single = [(time_us, 1) for time_us, _ in asked]
    judged = ideal.judge(((time_us, 1, True) for time_us, _ in asked), rate, burst)
    assert judged.wrongly_admitted >= math.floor(oracle.overshoot(single, rate, burst))


@pytest.mark.parametrize(
    ("shares", "index"), [([5, 5, 5], 1), ([9, 0, 0], 1 / 3), ([0, 0], 1), ([3, 1], 16 / 20)]
)
def test_jain_by_hand(shares: list[float], index: float) -> None:
    assert oracle.jain(shares) == pytest.approx(index)


def test_quantiles_are_existing_values() -> None:
    values = [30, 10, 20, 40]
    assert [oracle.quantile(values, share) for share in (0.01, 0.25, 0.26, 0.5, 0.75, 0.99, 1.0)] == [
        10, 10, 20, 20, 30, 40, 40,
    ]  # fmt: skip


@pytest.mark.parametrize(("rate", "burst"), [(0, 1), (1, 0), (-1, 1)])
def test_judging_needs_a_rate_and_a_burst(rate: float, burst: float) -> None:
    with pytest.raises(ValueError, match="above 0"):
        ideal.judge([], rate, burst)


@given(requests, rates, bursts)
def test_no_window_admits_more_than_rate_and_burst_or_the_largest(
    asked: list[tuple[int, int]], rate: int, burst: int
) -> None:
    answers = oracle.admissions(asked, rate, burst)
    admitted = [request for request, passed in zip(asked, answers, strict=True) if passed]
    assert oracle.overshoot(admitted, rate, burst) <= max(0, max(amount for _, amount in asked) - burst)


@given(requests, rates, bursts)
def test_overshoot_is_the_worst_of_all_windows(asked: list[tuple[int, int]], rate: int, burst: int) -> None:
    windows = [
        sum(amount for _, amount in asked[first : last + 1])
        - Fraction(rate) * (asked[last][0] - asked[first][0]) / S
        for first in range(len(asked))
        for last in range(first, len(asked))
    ]
    assert oracle.overshoot(asked, rate, burst) == max(windows) - burst


@given(requests, rates, bursts)
def test_decisions_of_a_perfect_gate_are_never_judged_wrong(
    asked: list[tuple[int, int]], rate: int, burst: int
) -> None:
    answers = oracle.admissions(asked, rate, burst)
    judged = ideal.judge(
        ((time, amount, passed) for (time, amount), passed in zip(asked, answers, strict=True)), rate, burst
    )
    assert (judged.wrongly_admitted, judged.wrongly_refused) == (0, 0)
    assert judged.ideal_refused == judged.refused == answers.count(False)


@given(requests, rates, bursts)
def test_the_engine_decides_as_the_oracle_does(asked: list[tuple[int, int]], rate: int, burst: int) -> None:
    # Two implementations that know nothing of each other; the engine's floats may differ at the very edge.
    bucket = DualBucket(rate, 0, burst / rate, asked[0][0] * 1000)
    oracle = TokenBucket(rate, burst, asked[0][0])
    for time_us, amount in asked:
        right = {oracle.admits(amount, time_us, -1), oracle.admits(amount, time_us, 1)}
        passed = bucket.take(amount, 0, time_us * 1000) == 0
        assert passed in right
        if passed:
            oracle.charge(amount, time_us)


def test_refusals_after_an_earlier_phase_are_not_judged_wrong() -> None:
    # One a second is asked for twice a second by clients that have emptied the bucket of 10 before.
    requests = [(n * 500_000, 1, n % 2 == 1) for n in range(1, 20)]
    assert ideal.judge(requests, 1, 10).wrongly_refused == 1
    judged = ideal.judge(requests, 1, 10, full=False)
    assert (judged.wrongly_admitted, judged.wrongly_refused) == (0, 0)
    # Of 3.5 s the first is needed for the first token.
    generous = [(n * 500_000, 1, False) for n in range(1, 10)]
    assert ideal.judge(generous, 1, 10, full=False).wrongly_refused == 3
