"""A cluster as its metadata shows it: brokers, topics with durable entries, a clock turned by hand."""

import json
from collections.abc import Sequence
from contextlib import aclosing

from sluicegate.store.metadata.memory import MemoryMetadata
from sluicegate.store.metadata.metadata_store import Delete, Event, Listing, MetadataStore
from sluicegate_danube.failover import keys
from sluicegate_danube.failover.controller import Controller
from sluicegate_danube.failover.election import Election
from sluicegate_danube.failover.view import ClusterView

NS = 1_000_000_000
BROKER_TTL_S = 8
CONTROLLER_TTL_S = 4


class World:
    """Brokers, topics and their store.

    :param store: in memory, on the clock by hand, if not given.
    """

    def __init__(self, store: MetadataStore | None = None) -> None:
        self.clock_ns = 0
        self.memory = MemoryMetadata(lambda: self.clock_ns)
        self.store = store or self.memory
        self.leases: dict[int, int] = {}
        self.alive: list[Controller] = []
        """Controllers that renew their leases."""

    def now_ns(self) -> int:
        return self.clock_ns

    async def pass_time(self, seconds: float) -> None:
        """Turn the clock; brokers and controllers that live renew their leases meanwhile."""
        end_ns = self.clock_ns + int(seconds * NS)
        while True:
            for lease in self.leases.values():
                await self.store.keep_alive(lease)
            for controller in self.alive:
                await controller.election.keep()
            if self.clock_ns >= end_ns:
                break
            self.clock_ns = min(self.clock_ns + NS, end_ns)
            await self.expire()

    async def expire(self) -> None:
        """End the leases whose time is over by the clock."""
        self.memory.expire()

    async def start(self, broker: int, address: str | None = None, ttl_s: int = BROKER_TTL_S) -> None:
        """A broker registers on a lease."""
        lease = await self.store.grant(ttl_s)
        value = json.dumps({"broker_addr": address or f"http://10.0.0.{broker}:6650"}).encode()
        await self.store.put(keys.registration_key(broker), value, lease)
        self.leases[broker] = lease

    async def kill(self, broker: int) -> None:
        """A broker renews its lease no longer, and time passes until that is over."""
        del self.leases[broker]
        await self.pass_time(BROKER_TTL_S)

    async def leave(self, broker: int) -> None:
        """A broker's registration is gone at once."""
        await self.store.revoke(self.leases.pop(broker))

    async def provide(self, topic: str, broker: int | None = None) -> None:
        """A topic with all of its durable entries, assigned or waiting."""
        namespace = topic.split("/")[1]
        for key in (
            keys.namespace_key(namespace, "policy"),
            keys.namespace_topic_key(topic),
            keys.topic_key(topic),
            *(keys.topic_key(topic, part) for part in ("policy", "schema", "delivery")),
            *(keys.topic_key(topic, part) for part in ("producers/1", "subscriptions/s")),
        ):
            await self.store.put(key, f'"{key}"'.encode())
        place = keys.unassigned_key(topic) if broker is None else keys.assignment_key(broker, topic)
        await self.store.put(place, keys.EMPTY)

    async def remove(self, topic: str) -> None:
        """An operator deletes a topic, with all of its entries."""
        view = await self.view()
        places = [*view.owners.get(topic, {}).values(), *filter(None, [view.unassigned.get(topic)])]
        below = await self.store.list(f"{keys.topic_key(topic)}/")
        durable = [keys.topic_key(topic), keys.namespace_topic_key(topic)]
        found = [*durable, *(entry.key for entry in (*places, *below.entries))]
        await self.store.transact([], [Delete(key) for key in found])

    def controller(
        self,
        controller: int = 1001,
        grace_ns: int = 0,
        store: MetadataStore | None = None,
        *,
        take_over: bool = False,
    ) -> Controller:
        """A controller that is given turns by hand."""
        store = store or self.store
        election = Election(store, controller, CONTROLLER_TTL_S, self.now_ns, take_over=take_over)
        made = Controller(store, election, grace_ns, self.now_ns)
        self.alive.append(made)
        return made

    async def view(self) -> ClusterView:
        """The cluster now."""
        return ClusterView.of(await self.store.list(keys.CLUSTER))

    async def owners(self) -> dict[str, list[int]]:
        """Who owns each topic."""
        return {topic: sorted(owners) for topic, owners in (await self.view()).owners.items()}

    async def changes(self, after: int) -> list[Sequence[Event]]:
        """All changes after a revision, those of one revision together."""
        last, found = (await self.store.list("/")).revision, []
        async with aclosing(self.store.watch("/", after)) as watched:
            while after < last:
                found.append(await anext(watched))
                after = found[-1][-1].revision
        return found

    async def durable(self) -> tuple[Listing, ...]:
        """What failover must never change: keys, values and the revisions that wrote them."""
        return tuple([await self.store.list(prefix) for prefix in keys.DURABLE])


def entries(durable: tuple[Listing, ...]) -> list[tuple[str, bytes, int]]:
    """What `World.durable` is compared by."""
    return [(entry.key, entry.value, entry.modified) for listing in durable for entry in listing.entries]


async def turn(controller: Controller) -> None:
    """Have a controller see the cluster and take a turn."""
    await controller.refresh()
    await controller.run_once()
