"""Wall-clock time derived from the monotonic time that everything else runs on."""

import time
from collections.abc import Callable

_TRIES = 4
_CLOSE_NS = 50_000
"""Two readings that are not interrupted take less."""


class WallClock:
    """Wall-clock time at any monotonic time; never ahead of the machine's, so that no message is early.

    :param wall: gives ns since 1970.
    :param monotonic: gives the ns of the times that are translated.
    :param tolerance_ns: how far the machine's clock may move before this one follows. Two events keep their
        order while the machine's clock is only adjusted; this one may be ahead of it by so much.
    """

    __slots__ = ("_monotonic", "_tolerance_ns", "_wall", "offset_ns")

    def __init__(
        self,
        wall: Callable[[], int] = time.time_ns,
        monotonic: Callable[[], int] = time.monotonic_ns,
        *,
        tolerance_ns: int = 0,
    ) -> None:
        self._wall = wall
        self._monotonic = monotonic
        self._tolerance_ns = tolerance_ns
        self.offset_ns = self._best_reading()
        """What to add to a monotonic time to get ns since 1970."""

    def ms(self, now_ns: int) -> int:
        """Milliseconds since 1970 at a monotonic time."""
        return (now_ns + self.offset_ns) // 1_000_000

    def follow(self) -> None:
        """Follow a step of the machine's clock."""
        offset_ns = self._best_reading()
        if abs(offset_ns - self.offset_ns) > self._tolerance_ns:
            self.offset_ns = offset_ns

    def _best_reading(self) -> int:
        """The offset of the wall clock.

        A delay between the two readings puts the wall clock behind by as much. So the pair that took the
        least time counts.
        """
        least_ns, offset_ns = self._read()
        for _ in range(_TRIES):
            if least_ns < _CLOSE_NS:
                break
            took_ns, again_ns = self._read()
            if took_ns < least_ns:
                least_ns, offset_ns = took_ns, again_ns
        return offset_ns

    def _read(self) -> tuple[int, int]:
        """How long reading both clocks took, and the offset."""
        before_ns = self._monotonic()
        wall_ns = self._wall()
        # Last: what passes before it must not make a delayed message come early.
        after_ns = self._monotonic()
        return after_ns - before_ns, wall_ns - after_ns
