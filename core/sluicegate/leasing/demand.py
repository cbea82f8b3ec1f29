"""How much of one limit a holder wants until its next request."""

from dataclasses import dataclass

from sluicegate.budgets import Grant, Request

_REMEMBERED_NS = 1_000_000_000
"""What was spent between two requests is wanted again for this long, so that a trickle never waits."""


@dataclass(slots=True)
class Side:
    """One dimension of a leased bucket, messages or bytes, as its store knows it."""

    by_bytes: bool
    last: Grant | None = None
    """The last grant; None if there is none, or if the answer to a call was lost."""
    peak: float = 0
    """The most that was spent lately between two requests."""
    _peak_ns: int = 0

    def wanted(self, spent: float, short: float, now_ns: int) -> float:
        """Tokens to hold until the next request; 0 if it has been idle.

        :param spent: since the last request.
        :param short: what waits or was refused since then, beyond what it holds; at least doubles it.
        """
        if spent >= self.peak or now_ns - self._peak_ns > _REMEMBERED_NS:
            self.peak, self._peak_ns = spent, now_ns
        if short <= 0:
            return self.peak
        return max(2 * self.peak, self.peak + short)


@dataclass(frozen=True, slots=True)
class Asked:
    """A request under way."""

    side: Side
    request: Request
