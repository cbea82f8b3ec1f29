"""What the workers of one broker know of each other without asking: numbers in memory that they share.

Each number is written by one process alone, so that none needs a lock.
"""

import mmap
import os
from time import monotonic_ns

_ALIVE_NS = 1_000_000_000
"""A worker that has given no sign for so long is not chosen where another one will do."""
_SIZE = 8
_BEAT, _CONNECTIONS, _TAKEN, _PASSED = range(4)
"""A worker's row: when it last gave a sign, the clients that it serves, how many passed ones it has taken,
and from there on how many it has passed to each worker."""


def shared_memory(workers: int) -> int:
    """A descriptor of memory for the workers of a broker, all 0 (Linux only).

    :param workers: how many there are.
    """
    descriptor = os.memfd_create("sluicegate-workers", os.MFD_CLOEXEC)
    os.ftruncate(descriptor, workers * (_PASSED + workers) * _SIZE)
    return descriptor


class SharedCounts:
    """The numbers of all workers, as one of them sees and writes them.

    :param descriptor: of `shared_memory`; may be closed afterwards.
    :param index: of this worker, from 0.
    :param workers: how many there are.
    """

    def __init__(self, descriptor: int, index: int, workers: int) -> None:
        self._workers = workers
        self._width = _PASSED + workers
        self._own = index * self._width
        self._memory = mmap.mmap(descriptor, workers * self._width * _SIZE)
        self._view = memoryview(self._memory)
        self._cells = self._view.cast("q")

    def close(self) -> None:
        """Release the memory in this process; idempotent."""
        self._cells.release()
        self._view.release()
        self._memory.close()

    def beat(self, connections: int) -> None:
        """Give a sign of life.

        :param connections: clients that this worker serves.
        """
        self._cells[self._own + _CONNECTIONS] = connections
        self._cells[self._own + _BEAT] = monotonic_ns()

    def leave(self) -> None:
        """Not to be chosen any more."""
        self._cells[self._own + _BEAT] = 0

    def passes(self, to: int, count: int) -> None:
        """Count clients that this worker passes on, or, if negative, could not."""
        self._cells[self._own + _PASSED + to] += count

    def takes(self) -> None:
        """Count a client that was passed to this worker."""
        self._cells[self._own + _TAKEN] += 1

    def took_all(self, index: int) -> None:
        """No client waits for this worker: a process that died between two steps may have miscounted."""
        self._cells[self._own + _TAKEN] += self.waiting(index)

    def waiting(self, index: int) -> int:
        """Clients that were passed to a worker, and which it has not taken yet."""
        cells, width = self._cells, self._width
        passed = sum(cells[each * width + _PASSED + index] for each in range(self._workers))
        return passed - cells[index * width + _TAKEN]

    def connections(self, index: int) -> int:
        """Clients that a worker said it serves."""
        return self._cells[index * self._width + _CONNECTIONS]

    def load(self, index: int) -> int:
        """Clients that a worker serves or is about to."""
        return self.connections(index) + max(0, self.waiting(index))

    def is_alive(self, index: int) -> bool:
        """Whether a worker has given a sign within the last second."""
        return monotonic_ns() - self._cells[index * self._width + _BEAT] < _ALIVE_NS
