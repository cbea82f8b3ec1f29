"""Background writes of a broker to its store, one after the other."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable

from sluicegate.store.policy_store import StoreError

log = logging.getLogger("sluicegate.danube.reference")
_MOST = 10_000


class Writes:
    """A queue of at most 10,000 writes. A failed write is logged and counted, and not retried.

    Nothing depends on one of them: a client that attaches again writes its entry again.
    """

    def __init__(self) -> None:
        self.failed = 0
        self._waiting: deque[Callable[[], Awaitable[object]]] = deque()
        self._some = asyncio.Event()

    def add(self, write: Callable[[], Awaitable[object]]) -> None:
        """Queue a write."""
        if len(self._waiting) >= _MOST:
            self.failed += 1
            return
        self._waiting.append(write)
        self._some.set()

    async def run(self) -> None:
        """Write until this is cancelled."""
        while True:
            await self._some.wait()
            self._some.clear()
            while self._waiting:
                try:
                    await self._waiting.popleft()()
                except StoreError as error:
                    self.failed += 1
                    log.warning("cannot write to the metadata store: %s", error)
