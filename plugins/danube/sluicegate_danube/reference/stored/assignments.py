"""The topics that the store assigns to one broker: each is opened once all its metadata is known."""

import asyncio
import logging

from sluicegate.store.metadata import MetadataStore
from sluicegate.store.policy_store import StoreError
from sluicegate_danube.failover import keys
from sluicegate_danube.reference.stored.cache import PrefixCache
from sluicegate_danube.reference.stored.cluster import StoredCluster
from sluicegate_danube.reference.stored.provisioning import PARTS, TopicMetadata, read_topic

log = logging.getLogger("sluicegate.danube.reference")
_RETRY_S = 0.2


class Assignments:
    """Follows the assignments of one broker.

    :param cluster: what it serves.
    :param wait_s: how long to wait for the cache to know a topic, before the store is asked for it once.
    """

    def __init__(self, store: MetadataStore, broker: int, cluster: StoredCluster, wait_s: float) -> None:
        self.cache = PrefixCache(store, keys.assignments_prefix(broker), self._changed)
        self._store = store
        self._cluster = cluster
        self._wait_s = wait_s
        self._opening: dict[str, asyncio.Task[None]] = {}

    async def open_all(self) -> None:
        """Serve what is assigned now, after the broker has registered again.

        The watch may be behind, as after a pause: what it knows may be another broker's by now.
        """
        while True:
            try:
                await self.cache.refresh()
                break
            except StoreError as error:
                log.warning("assignments cannot be listed: %s", error)
                await asyncio.sleep(_RETRY_S)
        for key in self.cache.entries:
            self._changed(key, b"")

    def close(self) -> None:
        """Stop serving, and cancel what is being opened."""
        for task in self._opening.values():
            task.cancel()
        self._opening.clear()
        self._cluster.close_all()

    def _changed(self, key: str, value: bytes | None) -> None:
        match keys.parse(key):
            case keys.Assignment(_, topic) if value is None:
                task = self._opening.pop(topic, None)
                if task is not None:
                    task.cancel()
                self._cluster.close(topic)
            case keys.Assignment(_, topic) if topic not in self._opening:
                task = asyncio.ensure_future(self._open(topic))
                self._opening[topic] = task
                task.add_done_callback(lambda done: self._opened(topic, done))

    def _opened(self, topic: str, task: "asyncio.Task[None]") -> None:
        if self._opening.get(topic) is task:
            del self._opening[topic]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("topic %s cannot be served: %s", topic, error)

    async def _open(self, topic: str) -> None:
        metadata = await self._metadata(topic)
        if metadata.problems:
            log.error("topic %s is served with defaults: %s", topic, ", ".join(metadata.problems))
        self._cluster.open(topic, metadata)

    async def _metadata(self, topic: str) -> TopicMetadata:
        """The metadata of a topic; asks the store once if the cache lacks it."""
        cache, wanted = self._cluster.view.durable, [keys.topic_key(topic, part) for part in PARTS]
        while not await cache.has(wanted, self._wait_s):
            try:
                listing = await self._store.list(f"{keys.topic_key(topic)}/")
            except StoreError as error:
                log.warning("topic %s waits for the metadata store: %s", topic, error)
                continue
            return read_topic(topic, {entry.key: entry.value for entry in listing.entries})
        return read_topic(topic, cache.entries)
