"""The position of a subscription: what is acknowledged, and what is read next."""

from collections.abc import Iterable


class Cursor:
    """A position in a topic's log, with individual acknowledgements beyond it.

    :param first: entry id of the first entry that the subscription reads.
    """

    def __init__(self, first: int) -> None:
        self.next = first
        """The next entry to read."""
        self._all_before = first
        self._beyond: set[int] = set()

    @property
    def mark_delete(self) -> int:
        """The entry up to which all are acknowledged; -1 if there is none."""
        return self._all_before - 1

    def is_acknowledged(self, number: int) -> bool:
        """True if an entry needs no further delivery."""
        return number < self._all_before or number in self._beyond

    def acknowledge(self, numbers: Iterable[int]) -> None:
        """Acknowledge single entries."""
        self._beyond.update(number for number in numbers if number >= self._all_before)
        while self._all_before in self._beyond:
            self._beyond.remove(self._all_before)
            self._all_before += 1
        self.next = max(self.next, self._all_before)

    def acknowledge_upto(self, number: int) -> None:
        """Acknowledge all entries up to this one."""
        if number < self._all_before:
            return
        self._all_before = number + 1
        self._beyond = {beyond for beyond in self._beyond if beyond > number}
        self.acknowledge(())

    def rewind(self) -> None:
        """Read again what is not acknowledged."""
        self.next = self._all_before

    def seek(self, first: int) -> None:
        """Go to an entry, and forget what was acknowledged from there on."""
        self.next = self._all_before = first
        self._beyond.clear()

    def backlog(self, size: int) -> int:
        """Entries not acknowledged in a log of `size`."""
        return size - self._all_before - len(self._beyond)
