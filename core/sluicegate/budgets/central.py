"""The bucket of one limit, of which holders lease tokens.

The bucket refills at the rate, until what it has and what its holders have leased make up a full one. A lease
ends by a report of what is left of it, or by its time. So level + leased <= burst at all times, and what is
unspent anywhere is at most that. Hence in every window of T seconds, whatever holders do or do not report:
spent by all <= rate x T + burst.

A holder whose one need is larger than a full bucket gets it once the bucket is full, and leaves a debt:
spent by all <= rate x T + the largest need.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sluicegate.budgets.budget_store import Grant, Limit, Request

FORGOTTEN_US: Final = 1_000_000
"""A holder that says nothing for this long, in us, has no share."""
_SECOND_US = 1_000_000
_ALMOST = 1e-9
"""What sums of floats may lack."""


@dataclass(slots=True)
class _Share:
    """What one holder has said and got."""

    rate: float
    burst: float
    want: float = 0
    leased: float = 0
    asked_us: int = 0
    """Time of its last request."""


class CentralBucket:
    """The tokens of one limit.

    :param limit: as its first holder knows it.
    :param level: tokens to begin with.
    :param lease_us: how long a lease lasts, in us.
    :param now_us: any clock that all holders of the bucket share.
    """

    __slots__ = ("_lease_us", "_shares", "_updated_us", "burst", "level", "rate")

    def __init__(self, limit: Limit, level: float, lease_us: int, now_us: int) -> None:
        self.rate, self.burst = limit.rate, limit.burst
        """The lowest that any holder knows: policies may reach holders at different times."""
        self.level = min(level, limit.burst)
        self._lease_us = lease_us
        self._updated_us = now_us
        self._shares: dict[str, _Share] = {}

    @property
    def leased(self) -> float:
        """Tokens of leases that may still be spent."""
        return sum(share.leased for share in self._shares.values())

    def reserve(self, holder: str, request: Request, now_us: int) -> Grant:
        """Lease tokens; what was leased before ends.

        :param holder: its name.
        :param request: of this limit; a holder that wants nothing has no share until it asks again.
        """
        limit, want = request.limit, request.want
        now_us = max(now_us, self._updated_us)  # a clock that was set back
        self._refill(now_us)
        share = self._shares.setdefault(holder, _Share(limit.rate, limit.burst))
        share.rate, share.burst, share.want, share.asked_us = limit.rate, limit.burst, want, now_us
        kept = min(request.kept, share.leased)
        share.leased = 0
        self._follow_limits()
        granted = min(kept, want)
        self.level = min(self.level + kept, self.burst - self.leased) - granted
        if want > granted:
            share.leased = granted
            granted += self._more(share)
            share.leased = 0
            if request.need > max(granted, self.burst) and self._is_full(granted):
                self.level -= request.need - granted
                granted = request.need
        share.leased = granted
        wanting = [each.want for each in self._shares.values() if each.want > 0]
        if not want:
            del self._shares[holder]
        return Grant(granted, len(wanting), sum(wanting))

    def _more(self, share: _Share) -> float:
        """Give tokens beyond those that are kept: no more than leaves others their part."""
        supply = max(self.level, 0.0) + self.rate * self._lease_us / _SECOND_US / 2
        lacking = [max(0.0, each.want - each.leased) for each in self._shares.values()]
        more = max(0.0, min(share.want - share.leased, self.level, fair_part(lacking, supply)))
        self.level -= more
        return more

    def _is_full(self, granted: float) -> bool:
        return self.level + self.leased + granted >= self.burst * (1 - _ALMOST)

    def _refill(self, now_us: int) -> None:
        """Refill for the time since the last request, step by step to the end of each lease."""
        ended = sorted(
            (share.asked_us + self._lease_us, name)
            for name, share in self._shares.items()
            if share.asked_us + self._lease_us <= now_us
        )
        for end_us, name in ended:
            self._fill(end_us)
            self._shares[name].leased = 0
            if end_us - self._lease_us + FORGOTTEN_US <= now_us:
                del self._shares[name]
        self._fill(now_us)

    def _fill(self, until_us: int) -> None:
        if until_us > self._updated_us:
            room = self.burst - self.level - self.leased
            self.level += max(0.0, min(room, (until_us - self._updated_us) * self.rate / _SECOND_US))
            self._updated_us = until_us

    def _follow_limits(self) -> None:
        self.rate = min(share.rate for share in self._shares.values())
        self.burst = min(share.burst for share in self._shares.values())


def fair_part(wants: Sequence[float], supply: float) -> float:
    """The largest part that each may have, so that those who want less get all they want (max-min).

    :param wants: what each wants.
    :param supply: what there is for all.
    """
    if sum(wants) <= supply:
        return supply
    ordered = sorted(wants)
    for index, want in enumerate(ordered):
        part = supply / (len(ordered) - index)
        if want > part:
            return part
        supply -= want
    return supply
