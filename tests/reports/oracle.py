"""Reference results in plain Python for the tests of the jobs."""

from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import accumulate

_SECOND_US = 1_000_000


class TokenBucket:
    """Starts full, holds `burst`, is refilled with `rate` a second without a break.

    A need larger than the bucket passes when the bucket is full, and leaves a debt.

    :param rate: tokens a second, above 0.
    :param burst: tokens that a full bucket holds, above 0.
    :param start_us: when it is full.
    """

    def __init__(self, rate: float, burst: float, start_us: int = 0) -> None:
        self._per_us = Fraction(rate) / _SECOND_US
        self._capacity = self._level = Fraction(burst)
        self._updated_us = start_us

    def level(self, now_us: int) -> Fraction:
        """Tokens in it; negative in debt."""
        return min(self._capacity, self._level + (now_us - self._updated_us) * self._per_us)

    def admits(self, need: int, now_us: int, slack_us: int = 0) -> bool:
        """Whether a need would pass.

        :param slack_us: as if it had been asked so much later; negative for earlier.
        """
        return self.level(now_us + slack_us) >= min(Fraction(need), self._capacity)

    def charge(self, need: int, now_us: int) -> None:
        """Take what was admitted, whether or not it would have passed."""
        self._level = self.level(now_us) - need
        self._updated_us = max(now_us, self._updated_us)

    def set(self, level: Fraction, now_us: int) -> None:
        """Have it hold so many tokens."""
        self._level, self._updated_us = level, now_us

    def take(self, need: int, now_us: int) -> bool:
        """Charge a need if it passes."""
        if not self.admits(need, now_us):
            return False
        self.charge(need, now_us)
        return True


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


def judged(
    asked: Iterable[tuple[int, int, bool]], rate: float, burst: float, slack_us: int = 0, *, full: bool = True
) -> tuple[int, int]:
    """Wrong admissions and wrong refusals, against the bucket that the gate really had.

    What was admitted without enough tokens shows that there were more, what was refused in spite of enough
    that there were less, by one operation at most. Whole operations of each are wrong decisions.

    :param full: whether the bucket is full at the first request; else refusals are judged by an empty one.
    """
    high: TokenBucket | None = None
    low: TokenBucket | None = None
    lent, missing, wrong = Fraction(0), Fraction(0), [0, 0]
    for time_us, amount, passed in asked:
        if high is None or low is None:
            high, low = TokenBucket(rate, burst, time_us), TokenBucket(rate, burst, time_us)
            low.set(Fraction(burst if full else 0), time_us)
        enough = min(Fraction(amount), Fraction(burst))
        if passed:
            if amount and not high.admits(amount, time_us, slack_us):
                lent += min(enough - high.level(time_us), enough)
                wrong[0] += lent >= enough
                lent %= enough
                high.set(enough, time_us)
                low.set(enough, time_us)
            high.charge(amount, time_us)
            low.charge(amount, time_us)
        elif amount and low.admits(amount, time_us, -slack_us):
            missing += min(low.level(time_us) - enough, enough)
            wrong[1] += missing >= enough
            missing %= enough
            high.set(enough, time_us)
            low.set(enough, time_us)
    return wrong[0], wrong[1]


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of all values does not exceed (nearest rank).

    :param values: at least one.
    :param share: above 0.0, up to 1.0.
    """
    ordered = sorted(values)
    rank = -int(-Fraction(str(share)) * len(ordered) // 1)
    return ordered[max(rank, 1) - 1]


def overshoot(admitted: Sequence[tuple[int, int]], rate: float, burst: float) -> Fraction:
    """By how much the worst window admitted more than rate x its length + burst.

    Over all windows that begin and end with an admission, both counted. At most 0 if the bucket was kept;
    further below 0 the less of it was used.

    :param admitted: time in us and amount of each, in order of time; at least one.
    """
    per_us = Fraction(rate) / _SECOND_US
    after = list(accumulate(amount for _, amount in admitted))
    above_rate = [total - per_us * time_us for total, (time_us, _) in zip(after, admitted, strict=True)]
    before = [level - amount for level, (_, amount) in zip(above_rate, admitted, strict=True)]
    lowest = accumulate(before, min)
    return max(level - least for level, least in zip(above_rate, lowest, strict=True)) - Fraction(burst)


def jain(shares: Sequence[float]) -> float:
    """Jain's fairness index of what clients got: 1.0 if all got the same, 1/n if one got everything.

    From R. Jain, D. Chiu, W. Hawe: A Quantitative Measure of Fairness (DEC-TR-301, 1984).

    :param shares: one for each client, those that got nothing too; 1.0 if no client got anything.
    """
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else 1.0
