"""How long operations were held, as a histogram of plain integers."""

from bisect import bisect_left

BOUNDS_NS = tuple(
    milliseconds * 1_000_000
    for milliseconds in (1, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000)
)
"""Upper bounds of the slots; one more slot counts what was held for longer."""
HOLD_SLOTS = len(BOUNDS_NS) + 1


class HoldTimes:
    """Holds of one kind of operation on one topic that have ended, with any outcome."""

    __slots__ = ("counts", "total_ns")

    def __init__(self) -> None:
        self.counts = [0] * HOLD_SLOTS
        """By slot; slot n counts holds longer than bound n - 1, up to bound n."""
        self.total_ns = 0

    def add(self, held_ns: int) -> None:
        """Count a hold.

        :param held_ns: how long it lasted.
        """
        self.counts[bisect_left(BOUNDS_NS, held_ns)] += 1
        self.total_ns += held_ns
