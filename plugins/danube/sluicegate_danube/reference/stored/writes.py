"""What a broker writes to its store beside its work: one write after the other, none of them awaited."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable

from sluicegate.store.policy_store import StoreError

log = logging.getLogger("sluicegate.danube.reference")
_MOST = 10_000


class Writes:
    """A queue of writes, at most 10,000. A write that fails is logged and counted, and not tried again.

    Nothing depends on one of them: a client that attaches again writes its entry again.
    """

    def __init__(self) -> None:
        self.failed = 0
        self._waiting: deque[Callable[[], Awaitable[object]]] = deque()
        self._some = asyncio.Event()

    def add(self, write: Callable[[], Awaitable[object]]) -> None:
        """Have something written soon."""
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
