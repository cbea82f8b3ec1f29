"""The law of the demo's limits: never accuses a right bucket, always finds one that is a tenth off."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.demo.simulation import Load, Record, simulate

from sluicegate.demo.kinds.judging import IN_FLIGHT
from sluicegate.demo.law import ENOUGH_S, Admitted, Answered, Held, Limit
from sluicegate.engine.bucket import SECOND_NS

MS = 1_000_000
few = settings(max_examples=40)
LIMIT = Limit(rate=50, burst=25)


def at(*times: float, amount: float = 1) -> list[Admitted]:
    return [Admitted(time, amount) for time in times]


# -- by hand ------------------------------------------------------------------------------------------


def test_a_full_bucket_can_be_emptied_at_once_but_not_exceeded() -> None:
    assert LIMIT.surplus(at(*[100.0] * 25)) <= 0
    assert LIMIT.surplus(at(*[100.0] * 27)) == pytest.approx(2, abs=0.5)


def test_the_worst_window_counts_and_not_the_whole_time() -> None:
    quiet_then_burst = at(0.0, *[10.0] * 25, *[10.1] * 10)
    assert LIMIT.surplus(quiet_then_burst) == pytest.approx(5, abs=0.5)


def test_a_need_that_is_larger_than_the_bucket_passes_alone() -> None:
    assert LIMIT.surplus([Admitted(1.0, 60)]) <= 0
    assert LIMIT.surplus([Admitted(1.0, 60), Admitted(1.1, 60)]) > 50


def test_nothing_is_judged_of_nothing() -> None:
    assert LIMIT.surplus([]) <= 0
    assert LIMIT.surplus_answered([]) <= 0
    assert LIMIT.shortfall([], []) < 0
    assert LIMIT.waiting([], []) == 0
    assert LIMIT.wrongly_refused([], []) == 0


def test_what_was_sent_and_acknowledged_in_a_window_was_admitted_in_it() -> None:
    fast = [Answered(0.0, 0.001 * n, 1) for n in range(40)]
    assert LIMIT.surplus_answered(fast[:25]) <= 0
    assert LIMIT.surplus_answered(fast) > 0
    # The same acknowledgements, of messages that may have been admitted long before.
    assert LIMIT.surplus_answered(replace(each, sent=-10.0) for each in fast) <= 0


def test_only_the_time_that_the_bucket_asked_for_counts_as_waiting() -> None:
    emptied = at(*[0.0] * 25)
    assert LIMIT.waiting(emptied, [Held(0.0, 0.02, 1), Held(3.0, 0.02, 1)]) == pytest.approx(0.02)
    assert LIMIT.waiting(emptied, [Held(0.0, 0.4, 1), Held(0.1, 0.4, 1)]) == pytest.approx(0.5)


def test_a_bucket_that_has_room_refuses_nothing() -> None:
    emptied = at(*[0.0] * 25)
    assert LIMIT.wrongly_refused(emptied, at(0.0, 0.01)) == 0
    assert LIMIT.wrongly_refused(emptied, at(0.01, 0.1)) == 1
    assert LIMIT.wrongly_refused([], at(0.0)) == 1


# -- a real bucket on a machine that stalls -----------------------------------------------------------

stalls = st.lists(
    st.tuples(st.integers(0, 5 * SECOND_NS), st.integers(1 * MS, 3 * SECOND_NS)), max_size=6
).map(tuple)


@st.composite
def loads(draw: st.DrawFn) -> Load:
    """Any load on any limit."""
    rate, size = draw(st.sampled_from(((5, 1), (20, 5), (50, 1), (65_536, 10_000))))
    burst_s = draw(st.sampled_from((0.1, 0.5, 1.0, 3.0)))
    return Load(
        seed=draw(st.integers(0, 2**32)),
        limit=Limit(rate, rate * burst_s),
        size=size,
        at_once=draw(st.sampled_from((1, 2, IN_FLIGHT))),
        pause_ns=draw(st.sampled_from((5 * MS, 50 * MS, 500 * MS))),
        stalls=draw(stalls),
    )


def accusations(load: Load, record: Record) -> list[str]:
    """What the law says against a bucket."""
    limit, found = load.limit, []
    if limit.surplus(record.admitted) > 0:
        found.append("surplus")
    if limit.surplus_answered(record.answered) > 0:
        found.append("surplus for clients")
    if limit.shortfall(record.admitted, record.held, load.at_once) > 0:
        found.append("shortfall")
    if limit.wrongly_refused(record.admitted, record.refused):
        found.append("refused")
    return found


@few
@given(loads())
def test_a_right_bucket_is_never_accused_of_delaying(load: Load) -> None:
    assert accusations(load, simulate(load)) == []


@few
@given(loads())
def test_a_right_bucket_is_never_accused_of_refusing(load: Load) -> None:
    assert accusations(load, simulate(replace(load, at_once=1), refusing=True)) == []


@st.composite
def saturated(draw: st.DrawFn) -> Load:
    """The demo's own limits, first with stalls, then for four seconds without."""
    rate, size = draw(st.sampled_from(((50, 1), (65_536, 1_000))))
    return Load(
        seed=draw(st.integers(0, 2**32)),
        limit=Limit(rate, rate * 0.5),
        size=size,
        at_once=draw(st.sampled_from((1, IN_FLIGHT))),
        pause_ns=1 * MS,
        stalls=draw(
            st.lists(st.tuples(st.integers(0, 1 * SECOND_NS), st.integers(1 * MS, 2 * SECOND_NS))).map(tuple)
        ),
        until_ns=7 * SECOND_NS,
    )


@few
@given(saturated())
def test_a_bucket_that_admits_a_tenth_more_always_has_a_surplus(load: Load) -> None:
    record = simulate(load, 1.1)
    assert load.limit.waiting(record.admitted, record.held) > ENOUGH_S
    assert load.limit.surplus(record.admitted) > 0


@few
@given(saturated())
def test_a_bucket_that_admits_a_tenth_less_always_has_a_shortfall(load: Load) -> None:
    record = simulate(load, 0.9)
    assert load.limit.waiting(record.admitted, record.held) > ENOUGH_S
    assert load.limit.shortfall(record.admitted, record.held, load.at_once) > 0


@few
@given(st.integers(0, 2**32))
def test_a_limit_that_refuses_while_it_has_room_is_found(seed: int) -> None:
    load = Load(seed, Limit(5, 5), 1, 1, 100 * MS)
    record = simulate(load, 0.8, refusing=True)
    assert load.limit.wrongly_refused(record.admitted, record.refused) > 0
