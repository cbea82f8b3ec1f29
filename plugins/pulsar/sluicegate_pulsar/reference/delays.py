"""Entries of one subscription that wait for their delivery time."""

from dataclasses import dataclass
from heapq import heappop, heappush

from sluicegate_pulsar.reference.stored_entry import Entry


@dataclass(slots=True)
class DelaySettings:
    """Settings of delayed delivery on a topic; its subscriptions share them, so a change reaches all."""

    active: bool = True
    """False delivers at once, whatever producers ask for."""
    tick_ms: int = 100
    """Entries that fall due are looked for no more often than this."""
    strict: bool = True
    """False lets an entry go up to one tick early, as Pulsar does by default."""
    max_delay_ms: int = 0
    """A message that asks for more is refused; 0 for no limit."""


class DelayedEntries:
    """Entries in the order of their delivery times.

    :param settings: of the topic.
    """

    def __init__(self, settings: DelaySettings) -> None:
        self._settings = settings
        self._waiting: list[tuple[int, int]] = []
        self._looked_ms = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def delay(self, entry: Entry, now_ms: int) -> bool:
        """Keep an entry if it is to be delivered later.

        :return: True if it waits here now; False if it can be delivered.
        """
        if not self._settings.active or entry.deliver_at_ms <= self._due_before(now_ms):
            return False
        heappush(self._waiting, (entry.deliver_at_ms, entry.number))
        return True

    def take_due(self, now_ms: int) -> list[int]:
        """Remove the entries that are due and return their ids."""
        self._looked_ms = now_ms
        due = []
        before = self._due_before(now_ms)
        while self._waiting and self._waiting[0][0] <= before:
            due.append(heappop(self._waiting)[1])
        return due

    def wake_at(self) -> int | None:
        """The next delivery time in ms; None if nothing waits."""
        if not self._waiting:
            return None
        early = 0 if self._settings.strict else self._settings.tick_ms
        return max(self._waiting[0][0] - early, self._looked_ms + self._settings.tick_ms)

    def clear(self) -> None:
        """Remove all entries."""
        self._waiting.clear()

    def _due_before(self, now_ms: int) -> int:
        return now_ms if self._settings.strict else now_ms + self._settings.tick_ms
