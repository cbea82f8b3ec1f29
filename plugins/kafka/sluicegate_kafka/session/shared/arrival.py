"""When records arrived at their partitions, as far as the gateway could observe it.

Two kinds of responses show it: a Produce response to a request that the gateway passed on, and the high
watermark that a Fetch response carries for each partition, even where its records are withheld. What was
asked for at one time and received at another bounds an arrival from both sides. Where bounds have to be
widened, records are delivered later, never earlier.
"""

from bisect import bisect_right
from collections.abc import Callable
from operator import itemgetter
from typing import NamedTuple, TypeAlias

from sluicegate.engine.delivery_time import UNKNOWN

MAX_PARTITIONS = 20_000
"""Partitions that are kept; beyond it the one that was seen first is forgotten."""
MAX_MARKS = 200_000
"""Marks of all partitions together; beyond it likewise."""
_MARKS_PER_DELAY = 1_024
"""What arrives within this part of a delay shares one mark, and counts as the last of it."""
_SHORTEST_GRAIN_MS = 4
_SIMILAR_MS = 1_000
"""Lower bounds that differ by less than this are one; far less than any sensible `max_timestamp_behind`."""


Observation: TypeAlias = tuple[tuple[str, int], int, int, int, int, int]
"""The parameters of `Arrivals.note`."""


class Arrival(NamedTuple):
    """Between which times a record arrived, in ms of the wall clock."""

    after_ms: int
    """It was not there yet; `UNKNOWN` where the gateway did not look."""
    by_ms: int
    """It was there."""


class _Mark(NamedTuple):
    """The arrival of all records from the mark before it up to an offset."""

    end: int
    """The first offset that it does not cover."""
    after_ms: int
    by_ms: int


_end_of = itemgetter(0)


class _Partition:
    """Marks of one partition, with ascending ends and times."""

    __slots__ = ("asked_ms", "marks")

    def __init__(self) -> None:
        self.marks: list[_Mark] = []
        self.asked_ms = UNKNOWN
        """What no mark covers was not there at this time."""

    def find(self, offset: int) -> _Mark | None:
        """The mark that covers a record; None for one that was not seen."""
        index = bisect_right(self.marks, offset, key=_end_of)
        return self.marks[index] if index < len(self.marks) else None

    def note(self, start: int, end: int, asked_ms: int, now_ms: int, delay_ms: int) -> int:
        """Add an observation; parameters as for `Arrivals.note`.

        :return: the offset up to which records were seen before.
        """
        marks = self.marks
        known = marks[-1].end if marks else 0
        if start < known:
            index = bisect_right(marks, start, key=_end_of)
            if marks[index].by_ms < asked_ms:
                # Missing offsets were seen before: the topic was recreated, or lost its end.
                del marks[index:]
                self.asked_ms = UNKNOWN
                known = marks[-1].end if marks else 0
        if known < start:
            self._add(_Mark(start, self.asked_ms, now_ms), delay_ms)
        if max(known, start) < end:
            self._add(_Mark(end, asked_ms, now_ms), delay_ms)
        self.asked_ms = max(self.asked_ms, asked_ms)
        while len(marks) > 1 and marks[1].by_ms + delay_ms <= now_ms:
            first, second = marks[:2]
            marks[:2] = [_Mark(second.end, min(first.after_ms, second.after_ms), second.by_ms)]
        return known

    def _add(self, mark: _Mark, delay_ms: int) -> None:
        """Append a mark, or widen the last one if they are nearly the same."""
        marks = self.marks
        if marks:
            last = marks[-1]
            grain_ms = max(_SHORTEST_GRAIN_MS, delay_ms // _MARKS_PER_DELAY)
            is_near = abs(last.after_ms - mark.after_ms) < _SIMILAR_MS
            if is_near and last.by_ms // grain_ms == mark.by_ms // grain_ms:
                marks[-1] = _Mark(mark.end, min(last.after_ms, mark.after_ms), mark.by_ms)
                return
        marks.append(mark)


class Arrivals:
    """When the records of all partitions with a delay arrived; bounded."""

    __slots__ = ("_marks", "_on_new", "_partitions")

    def __init__(self) -> None:
        self._on_new: Callable[[Observation], None] | None = None
        self._partitions: dict[tuple[str, int], _Partition] = {}
        self._marks = 0

    def tell(self, on_new: Callable[[Observation], None]) -> None:
        """Have a function called with all that shows new records, for siblings; see `note`."""
        self._on_new = on_new

    def note(
        self, at: tuple[str, int], start: int, end: int, asked_ms: int, now_ms: int, delay_ms: int
    ) -> None:
        """Add what a response shows of a partition. Times are in ms of the wall clock.

        :param at: topic and partition.
        :param start: offset from which on nothing was there at `asked_ms`.
        :param end: offset up to which all is there at `now_ms`.
        :param asked_ms: when the request was forwarded.
        :param now_ms: when its response came.
        :param delay_ms: the topic's fixed delay; earlier arrivals no longer matter.
        """
        known = self._partitions.get(at)
        if known is None:
            known = self._partitions[at] = _Partition()
        before, asked_before_ms = len(known.marks), known.asked_ms
        end_before = known.marks[-1].end if before else 0
        known_end = known.note(start, end, asked_ms, now_ms, delay_ms)
        self._marks += len(known.marks) - before
        if self._on_new is not None:
            if (
                known_end < end_before or known_end == start < end
            ):  # that of a recreated topic says all by itself
                self._on_new((at, start, end, asked_ms, now_ms, delay_ms))
            else:
                if known_end < start:
                    self._on_new((at, known_end, start, asked_before_ms, now_ms, delay_ms))
                if max(known_end, start) < end:
                    self._on_new((at, max(known_end, start), end, asked_ms, now_ms, delay_ms))
        while self._marks > MAX_MARKS or len(self._partitions) > MAX_PARTITIONS:
            self.forget(next(iter(self._partitions)))

    def hear(self, observation: Observation, now_ms: int) -> None:
        """Add what a sibling saw, some time ago.

        It counts as seen no earlier than what was seen here, so that times ascend.

        :param now_ms: the wall clock, in ms.
        """
        at, start, end, asked_ms, by_ms, delay_ms = observation
        known = self._partitions.get(at)
        if known is not None:
            last_ms = max(known.asked_ms, known.marks[-1].by_ms if known.marks else 0)
            by_ms = max(by_ms, min(last_ms, now_ms))
        on_new, self._on_new = self._on_new, None
        try:
            self.note(at, start, end, asked_ms, by_ms, delay_ms)
        finally:
            self._on_new = on_new

    def of(self, at: tuple[str, int], offset: int, now_ms: int) -> Arrival:
        """When an existing record arrived.

        :param at: topic and partition.
        :param offset: the record's.
        :param now_ms: the wall clock, in ms.
        """
        known = self._partitions.get(at)
        mark = known.find(offset) if known is not None else None
        return Arrival(UNKNOWN, now_ms) if mark is None else Arrival(mark.after_ms, mark.by_ms)

    def covers(self, at: tuple[str, int], end: int) -> bool:
        """Whether a partition's records up to an offset were seen."""
        known = self._partitions.get(at)
        return known is not None and bool(known.marks) and end <= known.marks[-1].end

    def forget(self, at: tuple[str, int]) -> None:
        """Forget a partition, so that its records are new when they are seen again."""
        forgotten = self._partitions.pop(at, None)
        if forgotten is not None:
            self._marks -= len(forgotten.marks)
