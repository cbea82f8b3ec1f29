"""One broker of a cluster, as its services see it."""

from dataclasses import dataclass

from sluicegate_danube.reference.answering import ROUTE_HEADER, Context
from sluicegate_danube.reference.cluster import Cluster
from sluicegate_danube.reference.topic import Topic


@dataclass(slots=True, kw_only=True)
class Node:
    """One broker of a cluster.

    :param index: its index in `urls`.
    :param urls: of all brokers; filled when their ports are known.
    """

    cluster: Cluster
    index: int
    urls: list[str]

    def serving(self, context: Context) -> int:
        """The target broker of a call: this one, or in proxy mode the one that its header names."""
        if self.cluster.settings.proxy:
            for key, value in context.invocation_metadata() or ():
                if key == ROUTE_HEADER and value in self.urls:
                    return self.urls.index(str(value))
        return self.index

    def connect_url(self, topic: Topic) -> str:
        """The address that clients dial for a topic."""
        named = self.cluster.settings.connect_urls
        if named:
            return named[topic.owner % len(named)]
        return self.urls[0 if self.cluster.settings.proxy else topic.owner]

    def served_by(self, name: str, context: Context) -> tuple[bool, str, str] | None:
        """Where a topic is served: whether here, what to dial, and the broker's own URL; None if nowhere.

        :raises RefusedError: if the name is invalid, or if no broker serves the topic now.
        """
        topic = self.cluster.find(name)
        if topic is None:
            return None
        return topic.owner == self.serving(context), self.connect_url(topic), self.urls[topic.owner]


class Service:
    """A gRPC service of one broker."""

    def __init__(self, node: Node) -> None:
        self._node = node
