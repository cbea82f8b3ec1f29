"""The dual token bucket: exact bounds, atomic charges, debt, threads."""

import sys
import threading
from collections.abc import Sequence
from fractions import Fraction
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluicegate.engine.bucket import SECOND_NS, DualBucket, Shortage, shown

MS = 1_000_000


def worst_window(admitted: Sequence[tuple[int, int]], rate: float) -> float:
    """The largest excess over rate x T of any window, given (ns, amount) in order of time."""
    per_ns = Fraction(rate) / SECOND_NS
    total = 0
    lowest_before: Fraction | None = None
    worst = Fraction(0)
    for now_ns, amount in admitted:
        before = total - per_ns * now_ns
        lowest_before = before if lowest_before is None else min(lowest_before, before)
        total += amount
        worst = max(worst, total - per_ns * now_ns - lowest_before)
    return float(worst)


@pytest.mark.seed("S1-060", "S1-064", "S1-066")
def test_starts_full_with_the_burst_and_refills_continuously() -> None:
    bucket = DualBucket(100, 0, 2.0, 0)

    assert [bucket.take(1, 10**9, 0) for _ in range(200)] == [0] * 200
    assert bucket.take(1, 0, 0) == pytest.approx(10 * MS, abs=1)
    assert bucket.take(1, 0, 9 * MS) == pytest.approx(1 * MS, abs=1)
    assert bucket.take(1, 0, 10 * MS) == 0


@pytest.mark.seed("S1-061", "S1-065", "S1-011")
def test_nothing_is_deducted_when_one_dimension_is_short() -> None:
    bucket = DualBucket(10, 1000, 1.0, 0)

    assert bucket.take(10, 500, 0) == 0
    assert bucket.take(1, 10, 0) > 0
    assert bucket.balance(0) == (0, 500)

    other = DualBucket(10, 1000, 1.0, 0)
    assert other.take(1, 1000, 0) == 0
    assert other.take(1, 1, 0) > 0
    assert other.balance(0) == (9, 0)


@pytest.mark.seed("S1-009", "S1-121")
def test_zero_is_unlimited() -> None:
    bucket = DualBucket(0, 0, 1.0, 0)

    assert all(bucket.take(10**9, 10**12, 0) == 0 for _ in range(100))
    assert bucket.wait(10**9, 10**12, 0) == 0
    assert bucket.is_full(0)


@pytest.mark.seed("S1-067")
def test_a_need_above_the_bucket_passes_when_it_is_full_and_leaves_a_debt() -> None:
    bucket = DualBucket(0, 1000, 1.0, 0)

    assert bucket.take(1, 1, 0) == 0
    assert bucket.take(1, 5000, 0) == pytest.approx(1 * MS, abs=1)
    assert bucket.take(1, 5000, 1 * MS + 1) == 0
    assert bucket.balance(1 * MS + 1)[1] == pytest.approx(-4000)
    # The debt is paid before anything passes, even a message without bytes.
    assert bucket.take(1, 0, 4000 * MS) > 0
    assert bucket.take(1, 0, 4001 * MS + 2) == 0


def test_charge_goes_into_debt_at_once() -> None:
    bucket = DualBucket(10, 1000, 1.0, 0)

    bucket.charge(15, 1000, 0)

    assert bucket.balance(0) == (-5, 0)
    assert bucket.wait(1, 0, 0) == pytest.approx(600 * MS, abs=1)


def test_a_charge_after_idle_time_is_taken_from_a_full_bucket() -> None:
    bucket = DualBucket(10, 1000, 1.0, 0)
    bucket.charge(10, 1000, 0)

    bucket.charge(4, 300, 60 * SECOND_NS)

    assert bucket.balance(60 * SECOND_NS) == (6, 700)


def test_idle_time_saves_one_burst_at_most() -> None:
    bucket = DualBucket(100, 0, 1.0, 0)
    assert bucket.take(50, 0, 0) == 0

    # A bucket that refills only when it runs short would admit 50 + 100 here.
    assert bucket.take(50, 0, 60 * SECOND_NS) == 0
    assert bucket.take(51, 0, 60 * SECOND_NS) > 0
    assert bucket.take(50, 0, 60 * SECOND_NS) == 0


@pytest.mark.seed("S1-121")
@pytest.mark.parametrize("rate", [1, 7, 1_000, 10**6, 4_294_967_295])
def test_long_run_error_is_below_a_thousandth(rate: int) -> None:
    bucket = DualBucket(rate, 0, 1.0, 0)
    need = max(1, rate // 100)
    now_ns = admitted = 0
    while now_ns < 60 * SECOND_NS:
        wait = bucket.take(need, 0, now_ns)
        if wait == 0:
            admitted += need
        now_ns += wait

    assert admitted == pytest.approx(60 * rate + rate, rel=0.001, abs=need)


@pytest.mark.seed("S1-121")
@settings(max_examples=150, deadline=None)
@given(
    messages_per_s=st.one_of(st.just(0), st.integers(1, 2000)),
    bytes_per_s=st.integers(1, 10**7),
    burst=st.sampled_from([0.05, 0.5, 1.0, 3.0]),
    steps=st.lists(
        st.tuples(st.integers(0, 300), st.integers(1, 500), st.integers(0, 10**6)), min_size=1, max_size=80
    ),
)
def test_no_window_exceeds_rate_and_burst(
    messages_per_s: int, bytes_per_s: int, burst: float, steps: list[tuple[int, int, int]]
) -> None:
    bucket = DualBucket(messages_per_s, bytes_per_s, burst, 0)
    now_ns = 0
    messages: list[tuple[int, int]] = []
    nbytes: list[tuple[int, int]] = []
    for step_ms, need_messages, need_bytes in steps:
        now_ns += step_ms * MS
        before = bucket.balance(now_ns)
        wait = bucket.take(need_messages, need_bytes, now_ns)
        if wait > 0:
            assert bucket.balance(now_ns) == before
            assert bucket.wait(need_messages, need_bytes, now_ns + wait) == 0
            continue
        messages.append((now_ns, need_messages))
        nbytes.append((now_ns, need_bytes))

    largest = max((need for _, need, _ in steps), default=0)
    largest_bytes = max((need for _, _, need in steps), default=0)
    if messages_per_s:
        assert worst_window(messages, messages_per_s) <= max(messages_per_s * burst, largest) * (1 + 1e-9)
    assert worst_window(nbytes, bytes_per_s) <= max(bytes_per_s * burst, largest_bytes) * (1 + 1e-9)


@pytest.mark.seed("S1-063", "S1-024")
def test_reconfigure_keeps_tokens_and_debt() -> None:
    bucket = DualBucket(100, 0, 1.0, 0)
    assert bucket.take(90, 0, 0) == 0

    bucket.reconfigure(1000, 500, 1.0, 100 * MS)
    assert bucket.balance(100 * MS) == pytest.approx((20, 500))

    bucket.reconfigure(10, 0, 1.0, 100 * MS)
    assert bucket.balance(100 * MS)[0] == pytest.approx(10)

    bucket.charge(30, 0, 100 * MS)
    bucket.reconfigure(20, 0, 1.0, 100 * MS)
    assert bucket.balance(100 * MS)[0] == pytest.approx(-20)


def test_reconfigure_to_the_same_changes_nothing() -> None:
    bucket = DualBucket(100, 0, 1.0, 0)
    assert bucket.take(100, 0, 5) == 0

    bucket.reconfigure(100, 0, 1.0, 0)

    assert bucket.updated_ns == 5
    assert bucket.balance(5)[0] == 0


@pytest.mark.parametrize(("rate", "nbytes", "burst"), [(-1, 0, 1.0), (0, -1, 1.0), (1, 1, 0.0)])
def test_senseless_rates_are_refused(rate: float, nbytes: float, burst: float) -> None:
    with pytest.raises(ValueError, match="expected rates of 0 or more and a burst above 0"):
        DualBucket(rate, nbytes, burst, 0)


def test_a_bucket_is_full_once_both_dimensions_are() -> None:
    bucket = DualBucket(100, 1000, 1.0, 0)
    assert bucket.is_full(0)

    assert bucket.take(50, 100, 0) == 0
    assert not bucket.is_full(100 * MS)
    assert bucket.is_full(500 * MS)


@pytest.mark.seed("S1-121", "S1-127")
def test_threads_never_take_more_than_there_is() -> None:
    bucket = DualBucket(5000, 5_000_000, 1.0, 0)
    admitted: list[int] = []
    start = threading.Barrier(8)

    def take() -> None:
        start.wait()
        admitted.append(sum(bucket.take(1, 1000, 0) == 0 for _ in range(2000)))

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=take) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)

    assert sum(admitted) == 5000
    assert bucket.balance(0) == (0, 0)


@pytest.mark.seed("S1-145")
def test_needs_nothing_but_the_standard_library() -> None:
    source = sys.modules[DualBucket.__module__].__file__
    assert source is not None
    with open(source, encoding="utf-8") as file:
        imports = [line for line in file if line.startswith(("import ", "from "))]
    assert {line.split()[1] for line in imports} == {"dataclasses", "functools", "math"}


@given(
    rates=st.tuples(st.integers(0, 100), st.integers(0, 1000)),
    steps=st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 150), st.integers(0, 1500)), max_size=20),
)
def test_peeking_agrees_with_taking(rates: tuple[int, int], steps: list[tuple[int, int, int]]) -> None:
    bucket = DualBucket(*rates, 1.0, 0)
    now_ns = 0
    for step_ns, messages, nbytes in steps:
        now_ns += step_ns
        assert bucket.has(messages, nbytes, now_ns) is (bucket.take(messages, nbytes, now_ns) == 0)


@pytest.mark.parametrize(
    ("rates", "charged", "needed", "told"),
    [
        pytest.param((10, 0), (15, 0), (8, 999), Shortage(False, 11.5, 10), id="messages alone"),
        pytest.param((0, 100), (0, 150), (999, 80), Shortage(True, 115, 100), id="bytes alone"),
        pytest.param((10, 100), (20, 200), (1, 11), Shortage(True, 105.5, 100), id="bytes for longer"),
        pytest.param((10, 100), (20, 200), (2, 19), Shortage(False, 11, 10), id="messages for longer"),
        pytest.param((10, 100), (20, 200), (1, 10), Shortage(False, 10.5, 10), id="both for as long"),
        pytest.param((10, 100), (0, 300), (1, 1), Shortage(True, 150.5, 100), id="one byte behind a debt"),
    ],
)
def test_a_shortage_names_the_dimension_with_the_longest_wait(
    rates: tuple[int, int], charged: tuple[int, int], needed: tuple[int, int], told: Shortage
) -> None:
    bucket = DualBucket(*rates, 2.0, 0)
    bucket.charge(*charged, 0)

    assert bucket.shortage(*needed, 0) == told


@pytest.mark.seed("S1-062")
@pytest.mark.parametrize(
    ("short", "told"),
    [
        (Shortage(False, 512.5, 500), "Current: 512 messages/s, Limit: 500 messages/s."),
        (Shortage(True, 3, 2.5), "Current: 3 bytes/s, Limit: 2.5 bytes/s."),
    ],
)
def test_a_shortage_as_a_sentence_has_the_unit(short: Shortage, told: str) -> None:
    assert str(short) == told


@pytest.mark.parametrize(
    ("value", "told"),
    [(2, "2"), (99.94, "99.9"), (99.96, "100"), (100, "100"), (100.4, "100"), (100.6, "101"), (101.4, "101")],
)
def test_values_below_100_have_one_place_unless_they_are_whole(value: float, told: str) -> None:
    assert shown(value) == told


def test_a_bucket_admits_up_to_its_level_and_anything_when_full() -> None:
    bucket = DualBucket(10, 100, 1.0, 0)
    assert bucket.has(11, 101, 0)

    bucket.charge(5, 50, 0)

    assert bucket.has(5, 50, 0)
    assert not bucket.has(6, 50, 0)
    assert not bucket.has(5, 51, 0)


@pytest.mark.parametrize(("rates", "left"), [((0, 100), (inf, 0)), ((10, 0), (0, inf))])
def test_a_limit_that_is_lifted_leaves_no_debt(rates: tuple[int, int], left: tuple[float, float]) -> None:
    bucket = DualBucket(10, 100, 1.0, 0)
    bucket.charge(10, 100, 0)

    bucket.reconfigure(*rates, 1.0, 0)

    assert bucket.balance(0) == left


def test_below_one_a_second_one_passes_each_time_that_the_bucket_is_full() -> None:
    bucket = DualBucket(0.5, 0, 1.0, 0)
    passed = [now for now in range(0, 60 * SECOND_NS, SECOND_NS // 10) if bucket.take(1, 0, now) == 0]
    assert passed == list(range(0, 60 * SECOND_NS, 2 * SECOND_NS))
