"""The gate's wall clock, by which delayed messages are due: never ahead of the machine's."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.gateway.wall_clock import WallClock

_S = 1_000_000_000


@given(st.integers(0, 10 * _S), st.integers(0, 10 * _S), st.integers(0, 10 * _S))
def test_it_is_never_ahead(wall_ns: int, monotonic_ns: int, later_ns: int) -> None:
    it = WallClock()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "time_ns", lambda: wall_ns)
        patch.setattr(time, "monotonic_ns", lambda: monotonic_ns)
        it.follow()
    assert it.ms(monotonic_ns + later_ns) == (wall_ns + later_ns) // 1_000_000


def test_time_that_passes_while_it_is_read_makes_nothing_early(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [5 * _S]

    def slow_reading() -> int:
        clock[0] += _S  # as on a machine that runs something else in between
        return clock[0]

    it = WallClock()
    monkeypatch.setattr(time, "time_ns", slow_reading)
    monkeypatch.setattr(time, "monotonic_ns", slow_reading)
    it.follow()
    assert it.ms(clock[0]) <= clock[0] // 1_000_000


def test_a_reading_that_was_interrupted_does_not_move_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monotonic = [0]
    stalls = iter([0, 3 * _S, 0, 0, 0, 0])

    def wall_ns() -> int:
        at = monotonic[0] + 100 * _S
        monotonic[0] += next(stalls)  # the machine runs something else before the other clock is read
        return at

    monkeypatch.setattr(time, "time_ns", wall_ns)
    monkeypatch.setattr(time, "monotonic_ns", lambda: monotonic[0])
    it = WallClock()
    it.follow()
    assert it.ms(0) == 100_000
