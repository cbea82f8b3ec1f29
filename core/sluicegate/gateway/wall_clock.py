"""The machine's wall clock, told from the monotonic time that everything else runs on."""

import time


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
        """Take over a step of the machine's clock."""
        # Read first: what passes between the two readings must not make a delayed message come early.
        wall_ns = time.time_ns()
        self._offset_ns = wall_ns - time.monotonic_ns()
