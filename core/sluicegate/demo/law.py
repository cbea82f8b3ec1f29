"""What a token bucket may admit, and what it must admit, independent of the speed of the machine.

At most: in every window of T seconds a bucket admits at most rate * T + max(burst, largest need).

At least: while an operation waits for the bucket, the bucket is not full, so it refills at its full rate. So
its balance is at least the initial balance plus rate * (time spent waiting), minus what it admitted. The wait
of the next held operation implies how much the bucket lacks, and it must not lack more than that. On a slow
machine, waits last longer than the bucket requires; only the required time counts.

This module does not share code with the bucket on purpose, or both could have the same defect.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf

CLOCK_S = 0.002
"""Tolerance for adjustments of the wall clock, as the log converts monotonic time to wall time."""
QUEUED_S = 0.001
"""A wait up to this length only means that other operations are ahead in the queue."""
ENOUGH_S = 0.5
"""If the gateway held its clients for less than this time in total, it was not saturated."""
SHARE = 0.01
"""Tolerance for rounding, as a share of the admitted amount."""


@dataclass(frozen=True, slots=True)
class Admitted:
    """An operation that a limit admitted."""

    at: float
    """Seconds."""
    amount: float
    """Messages or bytes."""


@dataclass(frozen=True, slots=True)
class Held:
    """An operation that a limit held."""

    at: float
    """Seconds."""
    wait: float
    """Wait that the limit required, in seconds."""
    amount: float
    """Messages or bytes."""


@dataclass(frozen=True, slots=True)
class Answered:
    """A message as its client saw it; it was admitted at some time between `sent` and `acknowledged`."""

    sent: float
    acknowledged: float
    amount: float


@dataclass(frozen=True, slots=True)
class Limit:
    """A token bucket that starts full; its methods take operations in order of time."""

    rate: float
    burst: float

    def surplus(self, admitted: Sequence[Admitted]) -> float:
        """The amount by which the worst window exceeds the limit; 0 or less if none does.

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
        """The surplus as clients see it: a message sent and acknowledged in a window was admitted in it."""
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
        """Seconds for which the bucket itself made clients wait, and so refilled at its full rate.

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
        """The amount that the limit should have admitted in addition; 0 or less if none.

        The wait of an operation implies the balance of the bucket. The balance is too low if admissions and
        refill leave a higher one.

        :param admitted: in order of time.
        :param held: in order of time.
        :param waiting_at_once: operations that can be in the queue together.
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
        """Number of operations that were refused although the balance sufficed.

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
    """The balance of an ideal bucket at any time, given the admitted operations."""

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
        index = bisect_right(self._times, at) - 1
        if index < 0:
            return self._limit.burst
        return min(self._limit.burst, self._after[index] + self._limit.rate * (at - self._times[index]))

    def admitted_until(self, at: float) -> float:
        """Amount admitted up to a time."""
        return self._totals[bisect_right(self._times, at)]

    def not_full_until(self, held: Held) -> float:
        """When an operation's wait ends or the bucket is full again, whichever is earlier."""
        return held.at + min(held.wait, (self._limit.burst - self(held.at)) / self._limit.rate)
