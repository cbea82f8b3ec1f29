"""Limits repeated log lines."""

from collections.abc import Hashable

_SECOND_NS = 1_000_000_000
_KEYS_LIMIT = 10_000


class LineLimiter:
    """Passes one line a second for each key, and counts those left out before it.

    :param every_ns: another time between two lines.
    """

    __slots__ = ("_every_ns", "_last")

    def __init__(self, every_ns: int = _SECOND_NS) -> None:
        self._every_ns = every_ns
        self._last: dict[Hashable, tuple[int, int]] = {}

    def passes(self, key: Hashable, now_ns: int) -> int | None:
        """Whether a line may be written.

        :param key: lines of the same key are thinned out together.
        :param now_ns: monotonic time.
        :return: how many lines of this key were left out since the last one; None to leave this one out too.
        """
        last_ns, left_out = self._last.get(key, (now_ns - self._every_ns, 0))
        if now_ns - last_ns < self._every_ns:
            self._last[key] = (last_ns, left_out + 1)
            return None
        if len(self._last) >= _KEYS_LIMIT:
            self._last.clear()
        self._last[key] = (now_ns, 0)
        return left_out
