"""Background tasks whose failure is logged and which end together."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

log = logging.getLogger(__name__)


class BackgroundTasks(set[asyncio.Task[None]]):
    """The running tasks of one owner.

    :param owner: for the log line about a task that fails.
    """

    def __init__(self, owner: str) -> None:
        super().__init__()
        self._owner = owner

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Start a task on the running loop; what it raises is logged."""
        task = asyncio.get_running_loop().create_task(work)
        self.add(task)
        task.add_done_callback(self._done)

    async def cancel(self) -> None:
        """Cancel all tasks and wait until they have ended."""
        for task in self:
            task.cancel()
        await asyncio.gather(*self, return_exceptions=True)

    def _done(self, task: asyncio.Task[None]) -> None:
        self.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("work of %s failed: %s", self._owner, error)
