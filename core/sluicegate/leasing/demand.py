"""How much of one limit a holder wants until its next request."""

from dataclasses import dataclass

from sluicegate.budgets import Grant, Request
from sluicegate.engine.bucket import SECOND_NS

_TOLD_OVER_NS = 500_000_000
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
    _gained: float = 0
    """Tokens that were granted beyond what was kept, since the rate of them was told."""
    _gained_per_s: float = 0
    _told_ns: int = 0

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

    def gain(self, tokens: float, now_ns: int) -> None:
        """Count what a grant brought; below 0 for what was given back."""
        self._told_ns = self._told_ns or now_ns
        self._gained += tokens

    def gained_per_s(self, now_ns: int) -> float:
        """Tokens a second that were granted since this was asked last, over half a second at least."""
        elapsed_ns = now_ns - self._told_ns
        if self._told_ns and elapsed_ns >= _TOLD_OVER_NS:
            self._gained_per_s = max(0.0, self._gained * SECOND_NS / elapsed_ns)
            self._gained, self._told_ns = 0.0, now_ns
        return self._gained_per_s


@dataclass(frozen=True, slots=True)
class Asked:
    """A request under way."""

    side: Side
    request: Request
