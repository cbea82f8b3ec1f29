"""Runs a controller until it is stopped. Besides the lease, only this part of failover waits for a time."""

import asyncio
import logging
from contextlib import suppress
from time import monotonic_ns

from sluicegate.pacing.backoff import Backoff
from sluicegate.store.metadata.following import follow
from sluicegate.store.metadata.metadata_store import MetadataStore
from sluicegate.store.policy_store import StoreError
from sluicegate_danube.failover.controller import Controller
from sluicegate_danube.failover.keeping import keep
from sluicegate_danube.failover.keys import CLUSTER

log = logging.getLogger("sluicegate.danube.failover")
_NS = 1_000_000_000
_FIRST_RETRY_NS = 100_000_000
_LONGEST_RETRY_NS = 2 * _NS
_GOODBYE_S = 2.0


async def run(controller: Controller, store: MetadataStore, ttl_s: int, stopping: asyncio.Event) -> None:
    """Follow the cluster, and act while the controller leads.

    :param store: the controller's own.
    :param ttl_s: time of the controller's lease; the lease is renewed every third of it.
    :param stopping: set to end it. The lease is given up then, and another controller takes over at once.
    :raises ForeignLoadManagerError: if another load manager leads.
    """
    worker = _Worker(controller, store, ttl_s)
    tasks = [
        asyncio.ensure_future(each)
        for each in (worker.follow(), keep(controller.election, worker.failed), worker.act(), stopping.wait())
    ]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with suppress(StoreError, TimeoutError):
            async with asyncio.timeout(_GOODBYE_S):
                await controller.election.resign()


class _Worker:
    """The tasks of one run."""

    def __init__(self, controller: Controller, store: MetadataStore, ttl_s: int) -> None:
        self._controller = controller
        self._store = store
        self._renewal_s = ttl_s / 3
        self._wanted = asyncio.Event()
        self._failing = False

    async def follow(self) -> None:
        """Take over what changes; ends if the store is closed."""
        async for seen in follow(self._store, CLUSTER, self.failed):
            if self._controller.see(seen):
                self._wanted.set()

    async def act(self) -> None:
        """Run it whenever there may be something to do."""
        retries = Backoff(_FIRST_RETRY_NS, _LONGEST_RETRY_NS)
        while True:
            self._wanted.clear()
            if await self._turned():
                retries.reset()
                self._recovered()
                with suppress(TimeoutError):
                    # Not wait_for: before Python 3.12 that loses a cancellation that comes with the event.
                    async with asyncio.timeout(self._longest_wait_s()):
                        await self._wanted.wait()
            else:
                await asyncio.sleep(retries.failed(monotonic_ns()) / _NS)

    def _longest_wait_s(self) -> float:
        due_ns = self._controller.absences.due_ns()
        wait_s = (due_ns - monotonic_ns()) / _NS if due_ns is not None else self._renewal_s
        return max(0.0, min(wait_s, self._renewal_s))

    async def _turned(self) -> bool:
        try:
            await self._controller.run_once()
        except StoreError as error:
            self.failed(error)
            return False
        return True

    def _recovered(self) -> None:
        if self._failing:
            self._failing = False
            log.warning("the metadata store answers again")

    def failed(self, error: StoreError) -> None:
        """Record an error; only the first of a series is logged."""
        self._controller.failed(error)
        if not self._failing:
            self._failing = True
            log.error("no topic moves while the metadata store cannot be used: %s", error)
