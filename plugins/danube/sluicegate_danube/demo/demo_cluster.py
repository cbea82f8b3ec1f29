"""What stands behind the demo's gate: two reference brokers, a store in memory, and a failover controller."""

import asyncio
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from time import monotonic_ns
from types import TracebackType
from typing import Any, Self

from sluicegate.store.metadata import MemoryMetadata
from sluicegate_danube.failover import keys, runner
from sluicegate_danube.failover.controller import Controller
from sluicegate_danube.failover.election import Election
from sluicegate_danube.failover.reassigning import CannotReassignError, Wanted, reassign
from sluicegate_danube.reference.stored import StoredBroker, create_topic

TTL_S = 2
"""Of the lease of the broker that dies."""
_STAYS, _DIES = 1, 2
_LONG_S = 3_600
"""Of the lease of the broker that stays: it serves all other scenes, however slow the machine is."""
_CONTROLLER = 2**63
_WAIT_S = 60.0
_LOOK_S = 0.01


class DemoCluster:
    """All in the event loop that runs it; an async context manager.

    Every topic is at the broker that stays, but one that is given to the broker that dies.

    :param topics: to be provisioned, those that are not reliable with False.
    """

    def __init__(self, topics: Mapping[str, bool]) -> None:
        self._topics = topics
        self._store = MemoryMetadata()
        self._stays = StoredBroker(self._store.another(), _STAYS, ttl_s=_LONG_S)
        self._dies = StoredBroker(self._store.another(), _DIES, ttl_s=TTL_S)
        self._is_alive = False
        self._stack = AsyncExitStack()

    @property
    def addresses(self) -> list[str]:
        """`host:port` of the broker that stays, and of the one that dies."""
        return [self._stays.address, self._dies.address]

    @property
    def url(self) -> str:
        """Of the broker that stays."""
        return self._stays.url

    async def give(self, topic: str) -> Mapping[str, Any]:
        """Have the broker that dies own a topic; it is started again if it is dead."""
        if not self._is_alive:
            port = int(self._dies.address.rpartition(":")[2])
            self._dies = StoredBroker(self._store.another(), _DIES, port=port, ttl_s=TTL_S)
            await self._start_the_one_that_dies()
        async with asyncio.timeout(_WAIT_S):
            while topic not in self._dies.cluster.topics:
                owners = [each for each in (_STAYS, _DIES) if await self._owns(each, topic)]
                if owners == [_STAYS]:
                    # Without a campaign: the controller leads, and assigns what is released here.
                    with suppress(CannotReassignError):  # until the other one is registered, or again
                        await reassign(
                            self._store, Wanted((topic,), _STAYS, _DIES), self._election(_CONTROLLER + 1)
                        )
                await asyncio.sleep(_LOOK_S)
        return {"owner": self._dies.address}

    async def kill(self, topic: str) -> Mapping[str, Any]:
        """Kill the broker that dies, as a crash does: its lease lives on.

        :return: `owned`, whether it owned the topic until then; on a machine that stood still for longer
            than its lease the topic has moved before. `at`, when, in seconds since 1970.
        """
        owned = await self._owns(_DIES, topic)
        self._is_alive = False
        await self._dies.kill()
        return {"owned": owned, "at": time.time_ns() / 1e9}

    async def __aenter__(self) -> Self:
        """Start the brokers and the controller.

        :raises OSError: if no port is available.
        """
        stopping = asyncio.Event()
        controller = Controller(self._store, self._election(_CONTROLLER))
        running = asyncio.ensure_future(runner.run(controller, self._store, _LONG_S, stopping))

        async def stop() -> None:
            stopping.set()
            await running

        self._stack.push_async_callback(stop)
        await self._stack.enter_async_context(self._stays)
        for topic, reliable in self._topics.items():
            await create_topic(self._store, topic, reliable=reliable)
        async with asyncio.timeout(_WAIT_S):
            while not self._topics.keys() <= self._stays.cluster.topics.keys():  # noqa: ASYNC110 - no event
                await asyncio.sleep(_LOOK_S)
        self._stack.push_async_callback(self._stop_the_one_that_dies)
        await self._start_the_one_that_dies()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop all."""
        await self._stack.aclose()

    async def _start_the_one_that_dies(self) -> None:
        await self._dies.__aenter__()
        self._is_alive = True

    async def _stop_the_one_that_dies(self) -> None:
        if self._is_alive:
            await self._dies.__aexit__(None, None, None)

    async def _owns(self, broker: int, topic: str) -> bool:
        return await self._store.get(keys.assignment_key(broker, topic)) is not None

    def _election(self, controller: int) -> Election:
        return Election(self._store, controller, _LONG_S, monotonic_ns, "demo")
