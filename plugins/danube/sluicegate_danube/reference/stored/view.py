"""A broker's view of its cluster: topics, their owners, and live brokers."""

import json
from collections.abc import Collection

from sluicegate.store.metadata import Entry, MetadataStore
from sluicegate_danube.failover import keys, view
from sluicegate_danube.reference.stored.cache import PrefixCache


class ClusterView:
    """Kept by watches of the store, so it may lag behind it.

    Keys and values of no known shape are left alone: a broker with a strange registration cannot be found.
    """

    def __init__(self, store: MetadataStore) -> None:
        self.durable = PrefixCache(store, keys.TOPICS, self._topic_changed)
        """`/topics/**`."""
        self._cluster = PrefixCache(store, keys.CLUSTER, self._cluster_changed)
        self._parts: dict[str, set[str]] = {}
        self._live = view.ClusterView()

    @property
    def caches(self) -> tuple[PrefixCache, ...]:
        """All caches."""
        return self.durable, self._cluster

    @property
    def topics(self) -> Collection[str]:
        """Names of all topics."""
        return self._parts.keys()

    def knows(self, topic: str) -> bool:
        """Whether there is a topic of this name."""
        return topic in self._parts

    def subscriptions(self, topic: str) -> list[str]:
        """Names of the subscriptions that a topic has had."""
        parts = (part.partition("subscriptions/") for part in self._parts.get(topic, ()))
        return sorted(name for before, _, name in parts if not before and name)

    def owner(self, topic: str) -> int | None:
        """The broker to which a topic is assigned, if it is alive."""
        return self._live.owner(topic)

    def url(self, broker: int) -> str:
        """The address of a live broker."""
        return self._live.address(broker)

    def _topic_changed(self, key: str, value: bytes | None) -> None:
        match keys.parse(key):
            case keys.TopicEntry(topic, part) if part:
                parts = self._parts.setdefault(topic, set())
                if value is not None:
                    parts.add(part)
                else:
                    parts.discard(part)
                if not parts:
                    del self._parts[topic]

    def _cluster_changed(self, key: str, value: bytes | None) -> None:
        # Its revisions say nothing of the owner and the address, which are all that is asked here.
        self._live.update(key, Entry(key, value, 0, 0) if value is not None else None)


def registration_value(url: str) -> bytes:
    """The value that a broker registers.

    :param url: where clients, other brokers and operators reach it.
    """
    return json.dumps({"broker_addr": url, "advertised_addr": url, "admin_addr": url}).encode()
