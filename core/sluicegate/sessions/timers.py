"""Timers of a session; the clock is an argument, as everywhere here."""

import heapq
from collections.abc import Callable
from itertools import count

_NUMBERS = count()
"""Serial numbers, so that timers of the same time run in the order of their creation."""


class Timer:
    """A call at a time, unless it is cancelled."""

    __slots__ = ("at_ns", "call")

    def __init__(self, at_ns: int, call: Callable[[int], None]) -> None:
        self.at_ns = at_ns
        self.call: Callable[[int], None] | None = call

    def cancel(self) -> None:
        """Cancel the call."""
        self.call = None


class Timers(list[tuple[int, int, Timer]]):
    """The timers of one session, the first one due in front.

    A list subclass, as sessions check at every read whether there are any.
    """

    __slots__ = ("_announced_ns", "has_new")

    def __init__(self) -> None:
        super().__init__()
        self._announced_ns = 0
        self.has_new = False
        """True if a timer was added since the last `wake_up_ns`."""

    def at(self, at_ns: int, call: Callable[[int], None]) -> Timer:
        """Call `call(now_ns)` at a monotonic time, or a little later."""
        timer = Timer(at_ns, call)
        heapq.heappush(self, (at_ns, next(_NUMBERS), timer))
        self.has_new = True
        return timer

    @property
    def due_ns(self) -> int | None:
        """When the next timer is due; None if there is none."""
        while self and self[0][2].call is None:
            heapq.heappop(self)
        return self[0][0] if self else None

    def wake_up_ns(self) -> int | None:
        """When the session has to be woken; None if nothing is due before the time returned last."""
        self.has_new = False
        due_ns = self.due_ns
        if due_ns is None or 0 < self._announced_ns <= due_ns:
            return None
        self._announced_ns = due_ns
        return due_ns

    def run_due(self, now_ns: int) -> None:
        """Run all timers that are due; called when the session is woken."""
        self._announced_ns = 0
        while self and self[0][0] <= now_ns:
            call = heapq.heappop(self)[2].call
            if call is not None:
                call(now_ns)
