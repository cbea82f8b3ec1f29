"""What the workers of one broker share; the supervisor keeps it while one of them is started again."""

import os
from asyncio import StreamWriter
from collections.abc import Callable
from functools import partial

from sluicegate.budgets import MemoryBudgets, MemoryBudgetStore
from sluicegate.net.listening import descriptors
from sluicegate.net.listening.shared_counts import shared_memory
from sluicegate.processes import messages
from sluicegate.processes.budget_line import OF_WORKERS, BudgetServer


class SharedByWorkers:
    """What all workers of a broker have in common.

    :param count: how many workers there are.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self.tell: list[Callable[..., None]] = []
        """Sends a message to each worker, by index."""
        # No worker holds anything yet. So buckets may begin full and places free, as if begun long ago.
        self.budgets = MemoryBudgets(OF_WORKERS.lease * 1000, OF_WORKERS.place_lease * 1000, since_us=0)
        self.inboxes = [descriptors.pair() for _ in range(count)]
        """Receiving and sending end of each worker, by index: clients come to it from the others."""
        self.counts = shared_memory(count)

    def close(self) -> None:
        """Keep nothing for workers any more: none is started again. Idempotent."""
        for ends in self.inboxes:
            for end in ends:
                end.close()
        if self.counts >= 0:
            os.close(self.counts)
            self.counts = -1


class Sibling:
    """One worker among those of its broker.

    :param index: from 0.
    """

    def __init__(self, shared: SharedByWorkers, index: int) -> None:
        self.index = index
        self._shared = shared

    @property
    def start_content(self) -> dict[str, object]:
        """What the first message to the process says of it: of `inboxes` the ends to send to, by index."""
        shared = self._shared
        return {
            "worker": self.index,
            "workers": shared.count,
            "inbox": shared.inboxes[self.index][0].fileno(),
            "inboxes": [sending.fileno() for _, sending in shared.inboxes],
            "counts": shared.counts,
        }

    @property
    def descriptors(self) -> list[int]:
        """The descriptors in that message."""
        shared = self._shared
        own = shared.inboxes[self.index][0].fileno()
        return [own, *(sending.fileno() for _, sending in shared.inboxes), shared.counts]

    def close(self) -> None:
        """No process of any worker is started from now on: clients that would wait for one are closed."""
        self._shared.close()

    def tell_others(self, kind: str, **content: object) -> None:
        """Send a message to the other workers; to one that is behind it is lost."""
        for index, tell in enumerate(self._shared.tell):
            if index != self.index:
                tell(kind, **content)

    def budget_server(self, pid: int, writer: StreamWriter) -> BudgetServer:
        """Answers the calls of a process of this worker.

        :param writer: to the process.
        """
        store = MemoryBudgetStore(self._shared.budgets, f"{self.index}/{pid}")
        return BudgetServer(store, partial(messages.send, writer))
