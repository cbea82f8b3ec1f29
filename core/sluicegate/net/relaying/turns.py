"""Turns of the event loop for long work: one slice in each turn, whichever client it belongs to.

All other clients are served between two slices. Three kinds of work wait here: slices that sessions ask for
(`NextTurn`), large reads (`fair_reading`), and ends of sessions (`parting`).

Users take turns, as the caller names them, so that more connections give no larger share. The work of
one user is done first come first served, so its connections take turns too.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from time import monotonic_ns
from typing import Final

SLICE_NS: Final = 1_000_000
"""How long large reads may take in one turn of the loop, all together."""


class Turns:
    """The queue of work that waits for a turn.

    :param loop: the running event loop.
    """

    __slots__ = ("_count", "_ended_ns", "_is_due", "_left_ns", "_loop", "_waiting", "taken")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: dict[str, deque[tuple[Callable[[], object], bool]]] = {}
        """For each user its work, and whether that is a session's slice, which takes a whole turn."""
        self._count = 0
        self._is_due = False
        self._left_ns = SLICE_NS
        self._ended_ns = 0
        self.taken = 0
        """Pieces of work done so far."""

    def slice(self, user: str, work: Callable[[], object]) -> None:
        """Schedule a session's slice, which gets a turn of its own (`NextTurn`)."""
        self._wait(user, work, is_slice=True)

    def queue(self, user: str, work: Callable[[], object]) -> None:
        """Schedule a part of a large read or of a session's end; several share a turn of `SLICE_NS`."""
        self._wait(user, work, is_slice=False)

    def may_begin(self, now_ns: int) -> bool:
        """Whether a large read may be processed at once: nothing waits, and the loop has had time for others.

        Such reads get at most two thirds of the loop's time, and `SLICE_NS` in one turn.

        :param now_ns: monotonic time.
        """
        if self._is_due:
            return False
        self._left_ns = min(SLICE_NS, self._left_ns + 2 * (now_ns - self._ended_ns))
        return self._left_ns > 0

    def ended(self, now_ns: int, spent_ns: int) -> None:
        """Charge a large read that was worked on at once.

        :param now_ns: monotonic time.
        :param spent_ns: how long it took.
        """
        self._left_ns = max(-SLICE_NS, self._left_ns - spent_ns)
        self._ended_ns = now_ns

    def _wait(self, user: str, work: Callable[[], object], *, is_slice: bool) -> None:
        self._waiting.setdefault(user, deque()).append((work, is_slice))
        self._count += 1
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._next)

    def _next(self) -> None:
        """Run a session's slice, or large reads for the length of a slice; later work waits."""
        until_ns = monotonic_ns() + SLICE_NS
        try:
            for _ in range(self._count):
                work, is_slice = self._take()
                self.taken += 1
                work()
                if is_slice or monotonic_ns() >= until_ns:
                    break
        finally:
            self._is_due = bool(self._waiting)
            if self._is_due:
                self._loop.call_soon(self._next)

    def _take(self) -> tuple[Callable[[], object], bool]:
        """The next user's first work; the user then waits behind all others."""
        user = next(iter(self._waiting))
        works = self._waiting.pop(user)
        work = works.popleft()
        self._count -= 1
        if works:
            self._waiting[user] = works
        return work
