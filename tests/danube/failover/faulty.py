"""A store whose answers go wrong at chosen steps, and what must hold of the cluster after every step."""

from asyncio import Lock
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from enum import Enum
from typing import TypeVar

from tests.danube.failover.world import World, entries

from sluicegate.store.metadata.metadata_store import NO_LEASE, Delete, Entry, Event, Listing, Put, Unchanged
from sluicegate.store.policy_store import StoreError
from sluicegate_danube.failover import keys
from sluicegate_danube.failover.view import ClusterView

T = TypeVar("T")


class DiedError(Exception):
    """The controller's process ends here."""


class Fault(Enum):
    """What goes wrong at one step."""

    UNREACHED = "the store is not reached"
    UNANSWERED = "the store does it, and the answer is lost"
    DEATH_BEFORE = "the controller dies, and the store is not reached"
    DEATH_AFTER = "the controller dies once the store has done it"


class Law:
    """What must hold at every moment.

    Durable entries are as they were. Each topic has one owner, or waits. A controller takes topics only from
    brokers that are not registered, gives them only to brokers that are, and changes nothing without holding
    the leader's key.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._durable: object = None
        self._before = ClusterView()
        self.topics: set[str] = set()
        """Those that there are."""

    async def begin(self) -> None:
        self._durable = entries(await self._world.durable())
        self._before = await self._world.view()
        await self.check(None)

    async def check(self, controller: int | None) -> None:
        """Look at the cluster after a step.

        :param controller: whose step it was; None if the cluster changed by itself.
        """
        before, after = self._before, await self._world.view()
        self._before = after
        durable = entries(await self._world.durable())
        topics = after.owners.keys() | after.unassigned.keys()
        for topic in topics:
            assert len(after.owners.get(topic, ())) + (topic in after.unassigned) == 1, topic
        if controller is None:
            self._durable, self.topics = durable, set(topics)  # an operator may delete a topic
            return
        assert durable == self._durable
        assert topics == self.topics
        changed = {topic for topic in topics if after.owners.get(topic) != before.owners.get(topic)}
        for topic in changed:
            assert after.owners.get(topic, {}).keys() <= after.registrations.keys()
            assert before.owners.get(topic, {}).keys().isdisjoint(before.registrations)
        if changed:
            assert before.leader is not None
            assert before.leader.value == str(controller).encode()


class FaultyStore:
    """One controller's way to the store.

    :param faults: what goes wrong, by the number of the step.
    :param events: what happens in the world just before a step, by its number.
    """

    def __init__(
        self,
        world: World,
        law: Law,
        controller: int,
        faults: Mapping[int, Fault] | None = None,
        events: Mapping[int, Callable[[], Awaitable[None]]] | None = None,
    ) -> None:
        self._inner = world.store
        self._law = law
        self._controller = controller
        self._faults = faults or {}
        self._events = events or {}
        self._one_at_a_time = Lock()
        self.steps = 0

    async def _step(self, call: Callable[[], Awaitable[T]]) -> T:
        async with self._one_at_a_time:  # a look at the cluster is two reads: nothing may happen between them
            return await self._taken(call)

    async def _taken(self, call: Callable[[], Awaitable[T]]) -> T:
        number = self.steps
        self.steps += 1
        if number in self._events:
            await self._events[number]()
            await self._law.check(None)
        fault = self._faults.get(number)
        if fault is Fault.DEATH_BEFORE:
            raise DiedError
        if fault is Fault.UNREACHED:
            raise StoreError("no answer", "try again")
        result = await call()
        await self._law.check(self._controller)
        if fault is Fault.DEATH_AFTER:
            raise DiedError
        if fault is Fault.UNANSWERED:
            raise StoreError("no answer", "try again")
        return result

    async def get(self, key: str) -> Entry | None:
        return await self._step(lambda: self._inner.get(key))

    async def list(self, prefix: str) -> Listing:
        return await self._step(lambda: self._inner.list(prefix))

    async def put(self, key: str, value: bytes, lease: int = NO_LEASE) -> int:
        return await self._step(lambda: self._inner.put(key, value, lease))

    async def delete(self, key: str) -> bool:
        return await self._step(lambda: self._inner.delete(key))

    async def transact(self, conditions: Sequence[Unchanged], changes: Sequence[Put | Delete]) -> bool:
        durable = [change.key for change in changes if change.key.startswith(keys.DURABLE)]
        assert durable == []
        return await self._step(lambda: self._inner.transact(conditions, changes))

    async def grant(self, ttl_s: int) -> int:
        return await self._step(lambda: self._inner.grant(ttl_s))

    async def keep_alive(self, lease: int) -> None:
        await self._step(lambda: self._inner.keep_alive(lease))

    async def revoke(self, lease: int) -> None:
        await self._step(lambda: self._inner.revoke(lease))

    def watch(self, prefix: str, after: int) -> AsyncGenerator[Sequence[Event], None]:
        return self._inner.watch(prefix, after)

    async def close(self) -> None:
        await self._inner.close()
