"""Notices assignments that another load manager writes while this controller leads."""

from collections.abc import Callable, Iterable, Sequence

from sluicegate.store.metadata.metadata_store import Event, Unchanged
from sluicegate_danube.failover import keys

_RECORDED_NS = 30_000_000_000
"""A foreign writer is recorded at most this often."""


class ForeignWrites:
    """Distinguishes this controller's writes from foreign ones.

    :param now_ns: monotonic time.
    """

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._own: set[str] = set()
        self._foreign_key: str | None = None
        self._recorded_ns: int | None = None

    def expect(self, key: str) -> None:
        """Note that this controller is about to write an assignment."""
        self._own.add(key)

    def known(self, keys_there: Iterable[str]) -> None:
        """Forget own writes that have arrived: later ones are foreign."""
        self._own.difference_update(keys_there)

    def clear(self) -> None:
        """Start again: nothing that this controller wrote is outstanding."""
        self._own.clear()

    def look(self, events: Sequence[Event], fence: Unchanged | None) -> int:
        """Look for assignments by another.

        :param fence: the leader's key as this controller wrote it; None if it does not lead.
        :return: how many there are.
        """
        count = 0
        for event in events:
            if event.entry is None or not isinstance(keys.parse(event.key), keys.Assignment):
                continue
            if event.key in self._own:
                self._own.discard(event.key)
            elif fence is not None and event.revision > fence.modified:
                self._foreign_key = event.key
                count += 1
        return count

    def to_record(self) -> str | None:
        """What another wrote, if that is to be recorded now."""
        foreign, now_ns = self._foreign_key, self._now_ns()
        self._foreign_key = None
        if foreign is None or (self._recorded_ns is not None and now_ns < self._recorded_ns + _RECORDED_NS):
            return None
        self._recorded_ns = now_ns
        return foreign
