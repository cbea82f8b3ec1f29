"""A cluster on a real etcd: its brokers serve, its controllers' leases end by a clock turned by hand."""

from collections.abc import Callable

from tests.danube.failover.world import NS, World, entries
from tests.waiting import until_so

from sluicegate.store.metadata import Delete, MetadataStore, Put
from sluicegate.store.metadata.etcd.address import EtcdAddress
from sluicegate.store.metadata.etcd.etcd_store import EtcdMetadata
from sluicegate_danube.failover import keys
from sluicegate_danube.reference.stored import StoredBroker, create_topic

_REAL_TTL_S = 3_600
"""Of leases in etcd: longer than any test, so that none ends by etcd's own clock."""


class TurnedEtcd(EtcdMetadata):
    """An etcd whose leases end when `expire` finds their time over; it revokes them then.

    :param now_ns: the clock.
    """

    def __init__(self, address: EtcdAddress, now_ns: Callable[[], int]) -> None:
        super().__init__(address)
        self._now_ns = now_ns
        self._ttls_ns: dict[int, int] = {}
        self._ends_ns: dict[int, int] = {}

    async def grant(self, ttl_s: int) -> int:
        """Make a lease."""
        lease = await super().grant(_REAL_TTL_S)
        self._ttls_ns[lease] = ttl_s * NS
        self._ends_ns[lease] = self._now_ns() + ttl_s * NS
        return lease

    async def keep_alive(self, lease: int) -> None:
        """Have a lease live for its whole time from now on."""
        await super().keep_alive(lease)
        if lease in self._ttls_ns:  # else it is a broker's own
            self._ends_ns[lease] = self._now_ns() + self._ttls_ns[lease]

    async def expire(self) -> None:
        """End the leases whose time is over."""
        for lease in [lease for lease, end_ns in self._ends_ns.items() if end_ns <= self._now_ns()]:
            del self._ends_ns[lease]
            await self.revoke(lease)


class EtcdWorld(World):
    """Reference brokers in this process, and an etcd that holds nothing else.

    :param open_store: makes a client of the etcd for the brokers.
    """

    def __init__(self, address: EtcdAddress, open_store: Callable[[], MetadataStore]) -> None:
        self.etcd = TurnedEtcd(address, self.now_ns)
        super().__init__(self.etcd)
        self._open_store = open_store
        self._brokers: dict[int, tuple[StoredBroker, MetadataStore]] = {}
        self._removed: set[str] = set()

    async def expire(self) -> None:
        """End the leases whose time is over by the clock."""
        await self.etcd.expire()

    async def start(self, broker: int, address: str | None = None, ttl_s: int = _REAL_TTL_S) -> None:
        """A broker registers and serves what is assigned to it."""
        store = self._open_store()
        made = StoredBroker(store, broker, ttl_s=ttl_s)
        await made.__aenter__()
        self._brokers[broker] = made, store
        found = await self.store.get(keys.registration_key(broker))
        assert found is not None
        self.leases[broker] = found.lease

    async def leave(self, broker: int) -> None:
        """A broker is killed, and its lease ends at once."""
        made, store = self._brokers.pop(broker)
        await made.kill()
        await super().leave(broker)
        await store.close()

    async def provide(self, topic: str, broker: int | None = None) -> None:
        """A topic with all of its durable entries, assigned or waiting."""
        assert await create_topic(self.store, topic)
        for part in ("producers/1", "subscriptions/s"):
            await self.store.put(keys.topic_key(topic, part), keys.EMPTY)
        if broker is not None:
            given = Put(keys.assignment_key(broker, topic), keys.EMPTY)
            assert await self.store.transact([], [Delete(keys.unassigned_key(topic)), given])

    async def remove(self, topic: str) -> None:
        """An operator deletes a topic, with all of its entries."""
        self._removed.add(topic)
        await super().remove(topic)

    async def kept(self, before: list[tuple[str, bytes, int]]) -> bool:
        """Whether the durable entries are as they were, but for those of topics that an operator deleted."""
        own = {keys.namespace_topic_key(topic) for topic in self._removed}
        below = tuple(f"{keys.topic_key(topic)}/" for topic in self._removed)
        left = [entry for entry in before if entry[0] not in own and not entry[0].startswith(below)]
        return entries(await self.durable()) == left

    async def until_served(self) -> None:
        """Return once each broker serves what is assigned to it, and nothing else."""
        owners = await self.owners()
        for broker, (made, _) in self._brokers.items():
            owned = {topic for topic, owner in owners.items() if owner == [broker]}
            await _until_serving(made, owned)

    async def close(self) -> None:
        """End the brokers and all clients, and delete all keys."""
        for broker in tuple(self._brokers):
            await self.leave(broker)
        for entry in (await self.store.list("/")).entries:
            await self.store.delete(entry.key)
        await self.etcd.close()


async def _until_serving(broker: StoredBroker, topics: set[str]) -> None:
    await until_so(lambda: broker.cluster.topics.keys() == topics)
