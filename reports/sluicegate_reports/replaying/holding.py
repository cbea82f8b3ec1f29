"""Queues held operations as a gate does: one for each client, with later ones behind it."""

import heapq
from collections import deque
from typing import Protocol

NEVER_NS = 1 << 62


class Waiting(Protocol):
    """Something that is due at a time."""

    def wake(self, now_ns: int) -> None:
        """Continue at its due time."""


class Holding:
    """All waiting objects by due time."""

    __slots__ = ("_heap", "_number", "due_ns")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Waiting]] = []
        self._number = 0
        self.due_ns = NEVER_NS
        """Due time of the next one."""

    def wait(self, until_ns: int, waiting: Waiting) -> None:
        """Wake it at a time; those of one time in the order of these calls."""
        self._number += 1
        heapq.heappush(self._heap, (until_ns, self._number, waiting))
        self.due_ns = self._heap[0][0]

    def wake(self, now_ns: int) -> int:
        """Wake all that are due, each at its own time.

        :return: when the next one is due.
        """
        heap = self._heap
        while heap and heap[0][0] <= now_ns:
            at_ns, _, waiting = heapq.heappop(heap)
            waiting.wake(at_ns)
        self.due_ns = heap[0][0] if heap else NEVER_NS
        return self.due_ns


class Recorded:
    """Operations that the log records as held, until it records their passing."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        # Bounded, as a log may lack the end of any number of holds.
        self._held: deque[tuple[int, int]] = deque(maxlen=1024)

    def __bool__(self) -> bool:
        return bool(self._held)

    def add(self, messages: int, nbytes: int) -> None:
        """One was held."""
        self._held.append((messages, nbytes))

    def passes(self, messages: int, nbytes: int) -> bool:
        """Whether an allow ends an earlier hold; holds before that one were then abandoned."""
        need = (messages, nbytes)
        if need not in self._held:
            return False
        while self._held.popleft() != need:
            pass
        return True
