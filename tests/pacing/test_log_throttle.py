"""How repeated log lines are thinned out."""

from sluicegate.pacing.log_throttle import LineLimiter


def test_it_passes_one_line_a_second_and_counts_the_rest() -> None:
    limiter = LineLimiter()
    passed = [limiter.passes("key", now_ns) for now_ns in range(0, 2_000_000_000, 100_000_000)]
    assert [left_out for left_out in passed if left_out is not None] == [0, 9]
    assert limiter.passes("another", 0) == 0
