"""Waits grow up to a bound, differ among those who wait, and end at once with a success."""

from hypothesis import given
from hypothesis import strategies as st

from sluicegate.pacing.backoff import Backoff

SECOND = 1_000_000_000


def test_waits_double_up_to_the_longest() -> None:
    backoff = Backoff(SECOND, 30 * SECOND, share=lambda: 0.0)
    assert backoff.wait_ns(0) == 0
    assert [backoff.failed(0) // SECOND for _ in range(7)] == [1, 2, 4, 8, 16, 30, 30]
    assert backoff.wait_ns(10 * SECOND) == 20 * SECOND
    assert backoff.wait_ns(31 * SECOND) == 0


def test_a_success_ends_the_wait() -> None:
    backoff = Backoff(SECOND, 30 * SECOND, share=lambda: 0.0)
    for _ in range(4):
        backoff.failed(0)
    backoff.reset()
    assert (backoff.failures, backoff.wait_ns(0)) == (0, 0)
    assert backoff.failed(0) == SECOND


@given(st.integers(1, 10_000), st.floats(0, 1))
def test_every_wait_is_between_half_of_the_bound_and_the_bound(failures: int, share: float) -> None:
    backoff = Backoff(SECOND, 30 * SECOND, share=lambda: share)
    backoff.failures = failures - 1
    bound = min(SECOND * 2 ** min(failures - 1, 40), 30 * SECOND)
    assert bound // 2 <= backoff.failed(0) <= bound
