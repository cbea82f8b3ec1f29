"""Reference results in plain Python that the reports' jobs are compared with."""

from collections.abc import Iterable, Sequence
from fractions import Fraction

from sluicegate_reports.ideal import TokenBucket


def admissions(requests: Iterable[tuple[int, int]], rate: float, burst: float) -> list[bool]:
    """Which requests a perfect gate that rejects would admit.

    :param requests: time and amount of each, in order of time; the bucket is full at the first.
    """
    bucket: TokenBucket | None = None
    admitted = []
    for time_us, amount in requests:
        bucket = bucket or TokenBucket(rate, burst, time_us)
        admitted.append(bucket.take(amount, time_us))
    return admitted


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of all values does not exceed (nearest rank).

    :param values: at least one.
    :param share: above 0.0, up to 1.0.
    """
    ordered = sorted(values)
    rank = -int(-Fraction(str(share)) * len(ordered) // 1)
    return ordered[max(rank, 1) - 1]
