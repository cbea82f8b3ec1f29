"""The oracle: what a perfect gate would do, in plain Python, with exact numbers.

The Spark jobs are tested against it, and the one pass that must be sequential runs it. It is written from
the policies' words (docs/configuration.md), not from the engine: neither imports the other.

Times are whole microseconds. Amounts are messages or bytes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

SECOND_US = 1_000_000


class TokenBucket:
    """Starts full, holds `burst`, is refilled with `rate` a second without a break.

    A need larger than the bucket passes when the bucket is full, and leaves a debt.

    :param rate: tokens a second, above 0.
    :param burst: tokens that a full bucket holds, above 0.
    :param start_us: when it is full.
    """

    __slots__ = ("_capacity", "_level", "_per_us", "_unit", "_updated_us")

    def __init__(self, rate: float, burst: float, start_us: int = 0) -> None:
        if rate <= 0 or burst <= 0:
            raise ValueError(f"expected a rate and a burst above 0, got {rate!r} and {burst!r}")
        exact_rate, exact_burst = Fraction(rate), Fraction(burst)
        # All in whole units so small that a microsecond's refill is a whole number of them.
        self._unit = SECOND_US * exact_rate.denominator * exact_burst.denominator
        self._per_us = int(exact_rate * self._unit / SECOND_US)
        self._capacity = self._level = int(exact_burst * self._unit)
        self._updated_us = start_us

    @property
    def scale(self) -> tuple[int, int, int]:
        """A token, the refill of a microsecond and a full bucket, as whole numbers of one unit."""
        return self._unit, self._per_us, self._capacity

    def level(self, now_us: int) -> float:
        """Tokens in it; negative in debt."""
        return self._refilled(now_us) / self._unit

    def admits(self, need: int, now_us: int, slack_us: int = 0) -> bool:
        """Whether a need would pass.

        :param slack_us: as if it had been asked so much later; negative for earlier.
        """
        have = self._refilled(now_us + slack_us)
        return have >= need * self._unit or have >= self._capacity

    def charge(self, need: int, now_us: int) -> None:
        """Take what was admitted, whether or not it would have passed."""
        self._level = self._refilled(now_us) - need * self._unit
        self._updated_us = max(now_us, self._updated_us)

    def take(self, need: int, now_us: int) -> bool:
        """Charge a need if it passes."""
        if not self.admits(need, now_us):
            return False
        self.charge(need, now_us)
        return True

    def _refilled(self, now_us: int) -> int:
        return min(self._capacity, self._level + (now_us - self._updated_us) * self._per_us)


def overshoot(admitted: Sequence[tuple[int, int]], rate: float, burst: float) -> Fraction:
    """By how much the worst window admitted more than rate x its length + burst.

    Over all windows that begin and end with an admission, both counted. At most 0 if the bucket was kept;
    further below 0 the less of it was used.

    :param admitted: time in us and amount of each, in order of time; at least one.
    """
    per_us = Fraction(rate) / SECOND_US
    total, lowest, worst = Fraction(0), None, None
    for time_us, amount in admitted:
        before = total - per_us * time_us
        lowest = before if lowest is None else min(lowest, before)
        total += amount
        risen = total - per_us * time_us - lowest
        worst = risen if worst is None else max(worst, risen)
    if worst is None:
        raise ValueError("expected at least one admission")
    return worst - Fraction(burst)


@dataclass(frozen=True, slots=True)
class Judged:
    """A gate's decisions against a bucket that was charged with all that the gate admitted."""

    admitted: int
    refused: int
    wrongly_admitted: int
    """Admitted though the bucket did not hold enough."""
    wrongly_refused: int
    """Refused though the bucket held enough."""
    ideal_refused: int
    """How many a perfect gate would have refused of the same requests."""


def judge(
    requests: Iterable[tuple[int, int, bool]],
    rate: float,
    burst: float,
    slack_us: int = 0,
    *,
    full: bool = True,
) -> Judged:
    """Judge decisions one by one.

    :param requests: time in us, amount, and whether it was admitted; in order of time.
    :param slack_us: resolution of the times: what would be right at any time so near is not called wrong.
    :param full: whether the bucket is full at the first; if that is not known, refusals are judged by one
        that is empty then, and admissions by a full one.
    """
    # Three buckets in one loop without calls, which takes a sixth of the time: there may be a million.
    unit, per_us, capacity = TokenBucket(rate, burst).scale
    slack = slack_us * per_us
    have = ideal = capacity
    least = capacity if full else 0
    charged_us = asked_us = None
    admitted = refused = too_many = too_few = ideal_refused = 0
    for time_us, amount, passed in requests:
        if charged_us is None or asked_us is None:
            charged_us = asked_us = time_us
        need = amount * unit
        enough = min(need, capacity)
        ideal = min(capacity, ideal + (time_us - asked_us) * per_us)
        asked_us = time_us
        if ideal >= enough:
            ideal -= need
        else:
            ideal_refused += 1
        refill = (time_us - charged_us) * per_us
        level = have + refill
        if passed:
            admitted += 1
            too_many += level + slack < enough
            have = min(capacity, level) - need
            least = min(capacity, least + refill) - need
            charged_us = time_us
        else:
            refused += 1
            too_few += least + refill - slack >= enough
    return Judged(admitted, refused, too_many, too_few, ideal_refused)


def attachments(events: Iterable[tuple[str, bool]], limit: int) -> list[bool]:
    """Which clients a perfect gate would let attach.

    :param events: name, and whether it comes (True) or goes, in order of time.
    :param limit: so many may be attached at once; the one with this number is the last.
    :return: for each that comes, whether it is let in.
    """
    attached: set[str] = set()
    answers = []
    for name, comes in events:
        if not comes:
            attached.discard(name)
            continue
        fits = name in attached or len(attached) < limit
        if fits:
            attached.add(name)
        answers.append(fits)
    return answers


def jain(shares: Sequence[float]) -> float:
    """Jain's fairness index of what clients got: 1.0 if all got the same, 1/n if one got everything.

    From R. Jain, D. Chiu, W. Hawe: A Quantitative Measure of Fairness (DEC-TR-301, 1984).

    :param shares: one for each client, those that got nothing too; 1.0 if nobody got anything.
    """
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else 1.0
