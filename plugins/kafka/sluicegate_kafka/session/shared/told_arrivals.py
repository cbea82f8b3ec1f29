"""What the workers of one cluster tell each other of records' arrivals, in batches."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sluicegate_kafka.session.shared.arrival import Arrivals, Observation

KIND = "arrivals"
BATCH_S = 0.05
"""How long an observation waits for others."""
_MOST = 5_000
"""Observations in a batch. Without a further one a sibling counts its records from when it sees them itself,
so it delivers them later. It then learns that their topic was recreated by a Fetch of its own alone."""
_MOST_AT_ONCE = 500
_SIMILAR_MS = 1_000
"""Lower bounds that differ by less than this are one, as for marks."""


class ToldArrivals:
    """The observations that siblings are to hear of.

    :param arrivals: of this worker.
    :param soon: has `flush` called in BATCH_S.
    :param tell: tells siblings.
    """

    def __init__(
        self,
        arrivals: Arrivals,
        soon: Callable[[], None],
        tell: Callable[[str, Mapping[str, Any]], None],
    ) -> None:
        self._soon = soon
        self._tell = tell
        self._last: dict[tuple[str, int], Observation] = {}
        """The last one of each partition, which the next may extend."""
        self._ended: list[Observation] = []
        arrivals.tell(self._add)

    def flush(self) -> None:
        """Tell what has been seen since the last time."""
        batch = [*self._ended, *self._last.values()]
        self._ended.clear()
        self._last.clear()
        for begin in range(0, len(batch), _MOST_AT_ONCE):
            self._tell(KIND, {"seen": [[*at, *rest] for at, *rest in batch[begin : begin + _MOST_AT_ONCE]]})

    def _add(self, new: Observation) -> None:
        kept = len(self._last) + len(self._ended)
        if not kept:
            self._soon()
        at, start, end, asked_ms, by_ms, delay_ms = new
        last = self._last.get(at)
        if last is not None and last[2] == start and abs(last[3] - asked_ms) < _SIMILAR_MS:
            self._last[at] = at, last[1], end, min(last[3], asked_ms), max(last[4], by_ms), delay_ms
        elif kept < _MOST:
            if last is not None:
                self._ended.append(last)
            self._last[at] = new


def heard(arrivals: Arrivals, seen: Sequence[Sequence[Any]], now_ms: int) -> None:
    """Add what a sibling told.

    :param seen: the content of the message.
    :param now_ms: the wall clock, in ms.
    """
    for topic, partition, start, end, asked_ms, by_ms, delay_ms in seen:
        arrivals.hear(((topic, partition), start, end, asked_ms, by_ms, delay_ms), now_ms)
