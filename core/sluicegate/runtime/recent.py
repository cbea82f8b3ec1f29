"""What a pair of running totals gained in the last seconds."""

from array import array

SECONDS = 10
"""How far back the longer window goes, in readings a second apart."""
_KEPT = SECONDS + 1


class Recent:
    """The last readings of totals of messages and bytes, taken once a second; some 350 bytes."""

    __slots__ = ("_readings", "_taken")

    def __init__(self) -> None:
        # Time, messages and bytes of each reading; a double is exact far beyond what a topic ever counts.
        self._readings = array("d", bytes(8 * 3 * _KEPT))
        self._taken = 0

    def read(self, now_ns: int, messages: float, nbytes: float) -> None:
        """Take a reading.

        :param now_ns: monotonic time.
        """
        index = self._taken % _KEPT * 3
        self._readings[index] = now_ns
        self._readings[index + 1] = messages
        self._readings[index + 2] = nbytes
        self._taken += 1

    def rates(self, seconds: int) -> tuple[float, float]:
        """Messages and bytes per second, on average since the reading of so many seconds ago.

        :param seconds: 1 to `SECONDS`; since the first reading if that is younger. 0 before the second one.
        """
        back = min(seconds, self._taken - 1)
        if back < 1:
            return 0.0, 0.0
        newest = (self._taken - 1) % _KEPT * 3
        oldest = (self._taken - 1 - back) % _KEPT * 3
        readings = self._readings
        elapsed_s = (readings[newest] - readings[oldest]) / 1e9
        if elapsed_s <= 0:
            return 0.0, 0.0
        return (
            (readings[newest + 1] - readings[oldest + 1]) / elapsed_s,
            (readings[newest + 2] - readings[oldest + 2]) / elapsed_s,
        )
