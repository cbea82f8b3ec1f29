"""Decisions about single requests against those of a perfect gate, in plain Python, with exact numbers.

Written from the policies' words (docs/configuration.md), not from the engine: neither imports the other.
Times are whole microseconds. Amounts are messages or bytes.

A decision is judged by the bucket that the gate really had: one that admits without enough tokens had
them, and one that refuses had no more. What the two buckets differ by is summed up, and each whole operation
of it is one wrong decision. So a gate whose rate is 0.2 % too high has as many wrong admissions as messages
too many, and not almost all.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

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
    asked = list(requests)
    scale = _scale(rate, burst)
    admitted = sum(passed for _, _, passed in asked)
    wrong = _wrong(asked, scale, slack_us, full=full)
    return Judged(admitted, len(asked) - admitted, *wrong, _refused_ideally(asked, scale))


_Asked: TypeAlias = Sequence[tuple[int, int, bool]]
_Scale: TypeAlias = tuple[int, int, int]
# Without calls in their loops, as there may be a million requests.


def _wrong(asked: _Asked, scale: _Scale, slack_us: int, *, full: bool) -> tuple[int, int]:
    """Wrong admissions and refusals."""
    unit, per_us, capacity = scale
    slack = slack_us * per_us
    have, least = capacity, capacity if full else 0
    too_many = too_few = 0
    lent = kept = 0  # what the gate's bucket had more, or less, than one that is kept to the policy
    last_us = asked[0][0] if asked else 0
    for time_us, amount, passed in asked:
        refill, last_us = (time_us - last_us) * per_us, time_us
        have, least = min(capacity, have + refill), min(capacity, least + refill)
        need = amount * unit
        enough = min(need, capacity)
        if passed:
            if have + slack < enough and need:
                lent += min(enough - have, enough)
                too_many, lent = too_many + (lent >= enough), lent % enough
                have = least = enough
            have -= need
            least -= need
        elif least - slack >= enough and need:
            kept += min(least - enough, enough)
            too_few, kept = too_few + (kept >= enough), kept % enough
            have = least = enough
    return too_many, too_few


def _refused_ideally(asked: _Asked, scale: _Scale) -> int:
    """How many a perfect gate would have refused."""
    unit, per_us, capacity = scale
    level, refused = capacity, 0
    last_us = asked[0][0] if asked else 0
    for time_us, amount, _ in asked:
        level, last_us = min(capacity, level + (time_us - last_us) * per_us), time_us
        need = amount * unit
        if level >= min(need, capacity):
            level -= need
        else:
            refused += 1
    return refused


def _scale(rate: float, burst: float) -> _Scale:
    """A token, the refill of a microsecond and a full bucket, as whole numbers of one unit."""
    if rate <= 0 or burst <= 0:
        raise ValueError(f"expected a rate and a burst above 0, got {rate!r} and {burst!r}")
    exact_rate, exact_burst = Fraction(rate), Fraction(burst)
    unit = SECOND_US * exact_rate.denominator * exact_burst.denominator
    return unit, int(exact_rate * unit / SECOND_US), int(exact_burst * unit)
