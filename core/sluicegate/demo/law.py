"""What a token bucket permits, and what it owes: judged from what happened, however slow the machine was.

At most: in every window of T seconds a bucket admits at most rate * T + max(burst, largest need).

At least: while an operation waits for the bucket, the bucket is not full, so it refills at its whole rate.
So it holds at least its first balance plus rate * (time spent waiting), less what it admitted. The next
operation that it makes wait says how much it lacks, and it must not lack more than that. A machine that
stalls makes the time longer than the bucket asked for; only the time that the bucket asked for counts.

This is an arithmetic of its own on purpose: it must not share a fault with the bucket that it judges.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf

CLOCK_S = 0.002
"""The log tells the gate's monotonic clock as wall time: an adjustment may move it by so much."""
QUEUED_S = 0.001
"""A wait that is no longer says only that others stand before, and nothing of the bucket."""
ENOUGH_S = 0.5
"""A gate that held its clients for less time than this in all was not saturated."""
SHARE = 0.01
"""Rounding that is allowed for, as a share of what was admitted."""


@dataclass(frozen=True, slots=True)
class Admitted:
    """An operation that a limit let through."""

    at: float
    """Seconds."""
    amount: float
    """Messages or bytes."""


@dataclass(frozen=True, slots=True)
class Held:
    """An operation that a limit made wait."""

    at: float
    """Seconds."""
    wait: float
    """Seconds that the limit asked for."""
    amount: float
    """Messages or bytes."""


@dataclass(frozen=True, slots=True)
class Answered:
    """A message as its client saw it: it was admitted at some time between these two."""

    sent: float
    acknowledged: float
    amount: float


@dataclass(frozen=True, slots=True)
class Limit:
    """A bucket that starts full.

    :param rate: messages or bytes per second.
    :param burst: what a full bucket holds.
    """

    rate: float
    burst: float

    def surplus(self, admitted: Sequence[Admitted]) -> float:
        """By how much the worst window exceeds what the limit permits; 0 or less if none does.

        :param admitted: in order of time.
        """
        allowance = max(self.burst, max((each.amount for each in admitted), default=0.0))
        worst, total, lowest = -inf, 0.0, inf
        for each in admitted:
            lowest = min(lowest, total - self.rate * each.at)
            total += each.amount
            worst = max(worst, total - self.rate * each.at - lowest)
        return worst - allowance - self._slack(total)

    def surplus_answered(self, answered: Iterable[Answered]) -> float:
        """The same from what clients saw: a message sent and acknowledged in a window was admitted in it."""
        seen = sorted(answered, key=lambda each: each.acknowledged)
        worst, largest = -inf, max((each.amount for each in seen), default=0.0)
        for begin in sorted({each.sent for each in seen})[:: max(1, len(seen) // 200)]:
            total = 0.0
            for each in seen:
                if each.sent >= begin:
                    total += each.amount
                    worst = max(worst, total - self.rate * (each.acknowledged - begin))
        return worst - max(self.burst, largest) - self._slack(sum(each.amount for each in seen))

    def waiting(self, admitted: Sequence[Admitted], held: Sequence[Held]) -> float:
        """Seconds for which the bucket itself made clients wait, and so refilled at its whole rate.

        :param admitted: in order of time.
        :param held: in order of time.
        """
        balances = self._balances(admitted)
        total, until = 0.0, -inf
        for each in held:
            begin, end = max(each.at, until), balances.not_full_until(each)
            if end > begin:
                total, until = total + end - begin, end
        return total

    def shortfall(
        self, admitted: Sequence[Admitted], held: Sequence[Held], waiting_at_once: int = 1
    ) -> float:
        """By how much less was admitted than the limit owes; 0 or less if nothing is owed.

        A bucket that makes an operation wait says by that how much it lacks. It lacks too much if it holds
        more by what it admitted and refilled.

        :param admitted: in order of time.
        :param held: in order of time.
        :param waiting_at_once: operations that may stand in line together.
        """
        balances, worst = self._balances(admitted), -inf
        need = max((each.amount for each in held), default=0.0) * waiting_at_once
        waited, until = 0.0, -inf
        for each in held:
            begin, end = max(each.at, until), balances.not_full_until(each)
            if each.wait > QUEUED_S:
                given = balances.admitted_until(each.at)
                holds = self.burst + self.rate * (waited - max(0.0, until - each.at)) - given
                says = need - self.rate * each.wait
                worst = max(worst, holds - says - self._slack(given))
                end = max(end, each.at + (self.burst - says) / self.rate)
            if end > begin:
                waited, until = waited + end - begin, end
        return worst

    def wrongly_refused(self, admitted: Sequence[Admitted], refused: Sequence[Admitted]) -> int:
        """How many were refused although the bucket had what they needed.

        :param admitted: in order of time.
        """
        balances = self._balances(admitted)
        return sum(
            balances(each.at) >= min(each.amount, self.burst) + self.rate * CLOCK_S for each in refused
        )

    def _slack(self, total: float) -> float:
        return self.rate * CLOCK_S + SHARE * total + 1e-6

    def _balances(self, admitted: Sequence[Admitted]) -> "_Balances":
        return _Balances(self, admitted)


class _Balances:
    """What an ideal bucket holds at any time, given what was admitted."""

    def __init__(self, limit: Limit, admitted: Sequence[Admitted]) -> None:
        self._limit = limit
        self._times: list[float] = []
        self._after: list[float] = []
        self._totals = [0.0]
        balance, before = limit.burst, 0.0
        for each in admitted:
            balance = min(limit.burst, balance + limit.rate * (each.at - before)) - each.amount
            before = each.at
            self._times.append(each.at)
            self._after.append(balance)
            self._totals.append(self._totals[-1] + each.amount)

    def __call__(self, at: float) -> float:
        place = bisect_right(self._times, at) - 1
        if place < 0:
            return self._limit.burst
        return min(self._limit.burst, self._after[place] + self._limit.rate * (at - self._times[place]))

    def admitted_until(self, at: float) -> float:
        """What was admitted up to a time."""
        return self._totals[bisect_right(self._times, at)]

    def not_full_until(self, held: Held) -> float:
        """When an operation's wait ends, or the bucket is full again before that."""
        return held.at + min(held.wait, (self._limit.burst - self(held.at)) / self._limit.rate)
