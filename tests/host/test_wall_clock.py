"""The gate's wall clock, by which delayed messages are due: never ahead of the machine's."""

from hypothesis import given
from hypothesis import strategies as st

from sluicegate.host.wall_clock import WallClock

_S = 1_000_000_000
_MS = 1_000_000


@given(st.integers(0, 10 * _S), st.integers(0, 10 * _S), st.integers(0, 10 * _S))
def test_it_is_never_ahead(wall_ns: int, monotonic_ns: int, later_ns: int) -> None:
    it = WallClock(lambda: wall_ns, lambda: monotonic_ns)
    assert it.ms(monotonic_ns + later_ns) == (wall_ns + later_ns) // _MS


def test_time_that_passes_while_it_is_read_makes_nothing_early() -> None:
    clock = [5 * _S]

    def slow_reading() -> int:
        clock[0] += _S  # as on a machine that runs something else in between
        return clock[0]

    it = WallClock(slow_reading, slow_reading)
    assert it.ms(clock[0]) <= clock[0] // _MS


def test_a_reading_that_was_interrupted_does_not_move_it() -> None:
    monotonic = [0]
    stalls = iter([0, 3 * _S, 0, 0, 0, 0])

    def wall_ns() -> int:
        at = monotonic[0] + 100 * _S
        monotonic[0] += next(stalls)  # the machine runs something else before the other clock is read
        return at

    it = WallClock(wall_ns, lambda: monotonic[0])
    it.follow()
    assert it.ms(0) == 100_000


def test_it_follows_a_step_and_not_what_it_tolerates() -> None:
    wall = [100 * _S]
    it = WallClock(lambda: wall[0], lambda: 0, tolerance_ns=_MS)
    seen = []
    for moved_ns in (-_MS, 2 * _MS, 1):
        wall[0] += moved_ns
        it.follow()
        seen.append(it.offset_ns)
    assert seen == [100 * _S, 100 * _S, 100 * _S + _MS + 1]


def test_without_a_tolerance_it_follows_each_adjustment() -> None:
    wall = [100 * _S]
    it = WallClock(lambda: wall[0], lambda: 0)
    wall[0] -= 1
    it.follow()
    assert it.offset_ns == 100 * _S - 1
