"""The largest excess of a lane over its law, see `law`."""

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from sluicegate_reports.transforms import law
from sluicegate_reports.transforms.lanes import Lane
from sluicegate_reports.transforms.law import Moments, Rise, Unit

_STEPS = 20
"""Each comes nearer to the worst window, and most often the second is there."""
_PARTS = 10**9
"""Of one: how exact a share is."""


def excess(moments: Iterable[Moments], lane: Lane, known: Rise | None = None) -> dict[str, Any] | None:
    """What the worst window admitted beyond the law.

    :param moments: when it was admitted, as `law.rise` takes it; it is gone through several times.
    :param known: the law of them in the unit of the lane's rate, if it was computed before.
    :return: `excess` over every window, in what the lane counts (at most 0: the law was kept);
        `excess_share`: the largest share of what a window may admit that it admitted beyond (likewise), with
        that window's begin and length, `excess_at_s` and `excess_window_s`; `largest` admitted at once, which
        may pass a full bucket even if it is more than that; `admitted`. None if nothing was.
    """
    unit = Unit.of(lane.rate)
    worst_rise = law.rise(moments, unit) if known is None else known
    if not worst_rise:
        return None
    largest = max(int(part.amount.max(initial=0)) for part in moments)
    full = max(Fraction(lane.burst), Fraction(largest))
    over = Fraction(worst_rise.rise, unit.of_one) - full
    share, worst = _share(moments, lane.rate, full, worst_rise)
    return {
        "excess": float(over),
        "excess_at_s": worst.from_us / 1e6,
        "excess_window_s": (worst.to_us - worst.from_us) / 1e6,
        "excess_share": float(share),
        "largest": largest,
        "admitted": worst_rise.late // unit.of_one,
    }


def _share(moments: Iterable[Moments], rate: float, full: Fraction, first: Rise) -> tuple[Fraction, Rise]:
    """By which share rate and burst had to be greater, so that no window exceeded them; and the worst window.

    The window that exceeds a law most gives a share; under the law with that share another window may exceed
    it (Dinkelbach, On Nonlinear Fractional Programming, 1967).
    """
    plain = unit = Unit.of(rate)
    share, worst, rise = Fraction(0), first, first
    for step in range(_STEPS):
        length_us = rise.to_us - rise.from_us
        allowed = Fraction(plain.per_us * length_us, plain.of_one) + full
        admitted = Fraction(rise.rise + unit.per_us * length_us, unit.of_one)
        nearer = Fraction(round((admitted / allowed - 1) * _PARTS), _PARTS)
        # Shares are rounded, so the search may stand still short of the exact one.
        if step and nearer <= share:
            break
        share, worst = nearer, rise
        if share <= 0:
            break
        unit = Unit.of(rate, 1 + share)
        rise = law.rise(moments, unit)
    return share, worst
