"""Waits between attempts that fail: exponential, with jitter, bounded.

Each failure doubles the wait up to a bound, and a random part of at most half is taken off ("equal jitter"),
so that many gateways that lost the same broker or volume do not come back to it all at once.
"""

import random
from collections.abc import Callable


class Backoff:
    """When something that failed may be tried again; knows no clock.

    :param first_ns: longest wait after the first failure.
    :param longest_ns: longest wait of all.
    :param share: gives a random share from 0 to 1.
    """

    __slots__ = ("_due_ns", "_first_ns", "_longest_ns", "_share", "failures")

    def __init__(self, first_ns: int, longest_ns: int, share: Callable[[], float] = random.random) -> None:
        self.failures = 0
        """Failures since the last success."""
        self._first_ns = first_ns
        self._longest_ns = longest_ns
        self._share = share
        self._due_ns = 0

    def wait_ns(self, now_ns: int) -> int:
        """How long until the next attempt; 0 if it may be made now.

        :param now_ns: monotonic time.
        """
        return max(0, self._due_ns - now_ns) if self.failures else 0

    def failed(self, now_ns: int) -> int:
        """Note that an attempt failed.

        :param now_ns: monotonic time.
        :return: how long until the next one, at least half of the bound that now holds.
        """
        # Shifts are bounded too, or the number would grow for as long as the failures last.
        bound_ns = min(self._first_ns << min(self.failures, 32), self._longest_ns)
        self.failures += 1
        wait_ns = bound_ns - int(bound_ns / 2 * self._share())
        self._due_ns = now_ns + wait_ns
        return wait_ns

    def reset(self) -> None:
        """Have the next attempt made at once: the last one succeeded, or there is reason to hope."""
        self.failures = 0
