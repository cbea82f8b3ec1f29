"""Decisions about single requests against those of a perfect gate, in plain Python, with exact numbers.

Written from the policies' words (docs/configuration.md), not from the engine: neither imports the other.
Times are whole microseconds. Amounts are messages or bytes.

A decision is judged by the bucket that the gate really had: one that admits without enough tokens had
them, and one that refuses had no more. What the two buckets differ by is summed up, and each whole operation
of it is one wrong decision. So a gate whose rate is 0.2 % too high has as many wrong admissions as messages
too many, and not almost all.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

SECOND_US = 1_000_000


@dataclass(frozen=True, slots=True)
class Judged:
    """A gate's decisions against the bucket that it had."""

    admitted: int
    refused: int
    wrongly_admitted: int
    """Operations for which the bucket did not hold enough, admitted."""
    wrongly_refused: int
    """Operations for which the bucket held enough, refused."""
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
    """Judge decisions one by one, by buckets of a rate and a burst above 0.

    :param requests: time in us, amount, and whether it was admitted; in order of time.
    :param slack_us: resolution of the times: what would be right at any time so near is not called wrong.
    :param full: whether the bucket is full at the first; if that is not known, refusals are judged by one
        that is empty then, and admissions by a full one.
    """
    # Three buckets in one loop without calls, which takes a sixth of the time: there may be a million.
    unit, per_us, capacity = _scale(rate, burst)
    slack = slack_us * per_us
    have = ideal = capacity
    least = capacity if full else 0
    charged_us = asked_us = None
    admitted = refused = too_many = too_few = ideal_refused = 0
    lent = kept = 0  # what the gate's bucket had more, or less, than one that is kept to the policy
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
        have = min(capacity, have + refill)
        least = min(capacity, least + refill)
        charged_us = time_us
        if passed:
            admitted += 1
            if have + slack < enough and need:
                lent += min(enough - have, enough)
                too_many, lent = too_many + (lent >= enough), lent % enough
                have = least = enough
            have -= need
            least -= need
        else:
            refused += 1
            if least - slack >= enough and need:
                kept += min(least - enough, enough)
                too_few, kept = too_few + (kept >= enough), kept % enough
                have = least = enough
    return Judged(admitted, refused, too_many, too_few, ideal_refused)


def _scale(rate: float, burst: float) -> tuple[int, int, int]:
    """A token, the refill of a microsecond and a full bucket, as whole numbers of one unit."""
    if rate <= 0 or burst <= 0:
        raise ValueError(f"expected a rate and a burst above 0, got {rate!r} and {burst!r}")
    exact_rate, exact_burst = Fraction(rate), Fraction(burst)
    unit = SECOND_US * exact_rate.denominator * exact_burst.denominator
    return unit, int(exact_rate * unit / SECOND_US), int(exact_burst * unit)
