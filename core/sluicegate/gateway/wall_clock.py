"""The machine's wall clock, told from the monotonic time that everything else runs on."""

import time

_TRIES = 4
_CLOSE_NS = 50_000
"""Two readings that are not interrupted take less."""


class WallClock:
    """Wall-clock time at any monotonic time; never ahead of the machine's, or delayed messages came early."""

    __slots__ = ("_offset_ns",)

    def __init__(self) -> None:
        self._offset_ns = 0
        self.follow()

    def ms(self, now_ns: int) -> int:
        """Milliseconds since 1970 at a monotonic time."""
        return (now_ns + self._offset_ns) // 1_000_000

    def follow(self) -> None:
        """Take over a step of the machine's clock.

        What passes between the two readings, while the machine runs something else, puts the wall clock
        behind by as much. So the pair that took the least time counts.
        """
        least_ns, offset_ns = self._read()
        for _ in range(_TRIES):
            if least_ns < _CLOSE_NS:
                break
            took_ns, again_ns = self._read()
            if took_ns < least_ns:
                least_ns, offset_ns = took_ns, again_ns
        self._offset_ns = offset_ns

    @staticmethod
    def _read() -> tuple[int, int]:
        """How long reading both clocks took, and the offset."""
        before_ns = time.monotonic_ns()
        wall_ns = time.time_ns()
        # Last: what passes before it must not make a delayed message come early.
        after_ns = time.monotonic_ns()
        return after_ns - before_ns, wall_ns - after_ns
