"""The bucket of one limit, of which holders lease tokens.

The bucket refills at the rate, until what it has and what its holders have leased make up a full one. It
keeps no record of a holder: leases are counted in generations, each as long as a lease. A grant counts in its
generation until its holder reports it, or until the generation after it has ended, which is not before the
lease has. So level + leased <= burst at all times, and what is unspent anywhere is at most that. Hence in
every window of T seconds, whatever holders do or do not report: spent by all <= rate x T + burst.

One operation may need more tokens than a full bucket holds. Its holder gets them once the bucket is full and
no other holder has a lease. The bucket is then in debt: spent by all <= rate x T + the largest need.

Holders share max-min, by a part that each may have: those who want less get all they want. The part is
corrected once a generation by what all have wanted of it, so that it fits within a few generations.
"""

import struct
from math import floor, inf
from typing import Final, Self

from sluicegate.budgets.budget_store import Grant, Limit, Request, Standing

_SECOND_US = 1_000_000
_ALMOST = 1e-9
"""What sums of floats may lack."""
_STATE: Final = (
    *("_level", "_updated_us", "_rate", "_burst", "_low_rate", "_low_burst", "_before", "_leased", "_part"),
    *("_taken", "_lacking", "_holders", "_demand", "_were_lacking", "_were_holders", "_was_demand"),
    "_waiting_us",
)
"""What a bucket keeps, in the order in which reserve.lua packs it."""


class CentralBucket:
    """The tokens of one limit.

    :param limit: as its first holder knows it.
    :param level: tokens to begin with; None if the bucket was lost, with up to a full one leased.
    :param lease_us: how long a lease and a generation last, in us.
    :param now_us: any clock that all holders of the bucket share.
    """

    __slots__ = ("_lease_us", *_STATE)

    def __init__(self, limit: Limit, level: float | None, lease_us: int, now_us: int) -> None:
        self._lease_us = lease_us
        self._level = 0.0 if level is None else min(level, limit.burst)
        self._updated_us: float = now_us
        self._rate, self._burst = limit.rate, limit.burst
        """The lowest that holders know in this generation and the last: policies reach them one by one."""
        self._low_rate, self._low_burst = inf, inf
        """The lowest of this generation."""
        self._before, self._leased = 0.0, limit.burst if level is None else 0.0
        """Tokens of the last generation and of this one that may still be spent."""
        self._part = limit.rate
        """Tokens a second that each holder may have."""
        self._taken, self._lacking, self._holders, self._demand = 0.0, 0.0, 0.0, 0.0
        """Of this generation: what holders want of their parts, who want more, who want any, and how much."""
        self._were_lacking, self._were_holders, self._was_demand = 0.0, 0.0, 0.0
        """The same of the last generation."""
        self._waiting_us = 0.0
        """Until when a need larger than the bucket waits for a full one."""

    @classmethod
    def restored(cls, packed: bytes, lease_us: int) -> Self:
        """A bucket as reserve.lua has packed it."""
        bucket = cls(Limit("", 1, 1), 0, lease_us, 0)
        for name, value in zip(_STATE, struct.unpack(f"<{len(_STATE)}d", packed), strict=True):
            setattr(bucket, name, value)
        return bucket

    def reserve(self, request: Request, now_us: int) -> Grant:
        """Lease tokens; what the holder had leased before ends.

        :param request: of this limit.
        :param now_us: the time.
        """
        if self._settle(now_us, request.away) > 1:
            self._rate = self._burst = inf  # no holder has asked for at least one generation
        self._follow(request.limit)
        generation = floor(self._updated_us / self._lease_us)
        self._count(request, generation)
        kept = self._ended(request, generation)
        granted = min(kept, request.renewed)
        self._level = min(self._level + kept, self._burst - self._before - self._leased) - granted
        more = self._more(request, granted)
        self._level -= more
        self._leased += granted + more
        return Grant(granted + more, generation, *self._sharing())

    def standing(self, name: str, now_us: int) -> Standing:
        """How it stands.

        :param name: of the limit.
        """
        self._settle(now_us, 0)
        leased = self._before + self._leased
        return Standing(Limit(name, self._rate, self._burst), self._level, leased, *self._sharing())

    def _sharing(self) -> tuple[int, float]:
        """How many share the limit, and the tokens a second that they want."""
        return int(max(self._holders, self._were_holders)), max(self._demand, self._was_demand)

    def _more(self, request: Request, granted: float) -> float:
        """Tokens beyond those that are kept."""
        if request.need > self._burst:
            if self._level + granted >= self._burst * (1 - _ALMOST):
                self._waiting_us = 0
                return request.need - granted
            self._waiting_us = self._updated_us + self._lease_us
            return 0
        if self._updated_us < self._waiting_us:
            return 0
        target = self._target()
        # Small differences are the rhythm of requests, and would go to who comes first.
        spare = self._level - target if self._level > 2 * target else 0
        spare /= max(1.0, self._lacking, self._were_lacking)
        most = self._part * request.seconds + spare
        return max(0.0, min(min(request.want, most) - granted + self._reserve(request), self._level))

    def _reserve(self, request: Request) -> float:
        """Tokens beyond those that are wanted, of a bucket that holds plenty: what is spent varies."""
        plenty = self._level - self._burst / 2 if request.want else 0.0
        return max(0.0, plenty) / 4 / max(1.0, self._holders, self._were_holders)

    def _ended(self, request: Request, generation: int) -> float:
        """End the holder's last lease.

        :return: the tokens of it that come back.
        """
        last = request.last
        if last is None:
            return 0
        if last.generation == generation:
            held = min(last.tokens, self._leased)
            self._leased -= held
        elif last.generation == generation - 1:
            held = min(last.tokens, self._before)
            self._before -= held
        else:
            return 0
        return min(request.kept, held)

    def _count(self, request: Request, generation: int) -> None:
        """Count each holder once a generation."""
        if request.want > 0 and (request.last is None or request.last.generation != generation):
            demand = request.want / request.seconds
            self._holders += 1
            self._demand += demand
            self._taken += min(self._part, demand)
            self._lacking += 1 if demand > self._part else 0

    def _follow(self, limit: Limit) -> None:
        self._low_rate, self._low_burst = min(self._low_rate, limit.rate), min(self._low_burst, limit.burst)
        self._rate, self._burst = min(self._rate, limit.rate), min(self._burst, limit.burst)

    def _settle(self, now_us: int, away_s: float) -> int:
        """Refill for the time since the last request.

        :param away_s: of this time, how many seconds holders spent of their own shares of the rate instead.
        :return: how many generations have ended, at most 2: there is nothing of earlier ones.
        """
        now = max(now_us, self._updated_us)  # a clock that was set back
        until = now - away_s * _SECOND_US
        end = (floor(self._updated_us / self._lease_us) + 1) * self._lease_us
        ended = 0
        while ended < 2 and end <= now:
            self._fill(min(end, until))
            self._end_generation()
            end += self._lease_us
            ended += 1
        self._fill(until)
        self._updated_us = now
        return ended

    def _fill(self, until_us: float) -> None:
        if until_us > self._updated_us:
            room = self._burst - self._level - self._before - self._leased
            self._level += max(0.0, min(room, (until_us - self._updated_us) * self._rate / _SECOND_US))
            self._updated_us = until_us

    def _end_generation(self) -> None:
        if self._holders > 0:
            # Half of each correction: holders that lacked tokens want more than they need, and would swing.
            supply = self._rate + (self._level - self._target()) / 2 * _SECOND_US / self._lease_us
            part = self._part + (supply - self._taken) / 2 / max(1.0, self._lacking)
            self._part = max(0.0, min(max(self._rate, supply), max(part, supply / self._holders)))
        if self._low_rate < inf:
            self._rate, self._burst = self._low_rate, self._low_burst
        self._low_rate, self._low_burst = inf, inf
        self._before, self._leased = self._leased, 0.0
        self._were_lacking, self._were_holders, self._was_demand = self._lacking, self._holders, self._demand
        self._taken, self._lacking, self._holders, self._demand = 0.0, 0.0, 0.0, 0.0

    def _target(self) -> float:
        """What the bucket keeps for those who come, in tokens."""
        return min(self._burst, self._rate * self._lease_us / _SECOND_US) / 4
