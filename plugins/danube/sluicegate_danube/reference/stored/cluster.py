"""The state of one broker of a stored cluster: the topics assigned to it."""

import re
from collections.abc import Callable, Collection
from functools import partial

from danube.proto import DanubeApi_pb2 as pb
from grpc import StatusCode

from sluicegate.store.metadata import MetadataStore
from sluicegate_danube.failover.keys import EMPTY, topic_key
from sluicegate_danube.reference.answering import Context
from sluicegate_danube.reference.broker_errors import RefusedError
from sluicegate_danube.reference.broker_settings import Settings
from sluicegate_danube.reference.cluster import Cluster
from sluicegate_danube.reference.consumers import Consumer
from sluicegate_danube.reference.node import Node
from sluicegate_danube.reference.stored.provisioning import (
    SCHEMA,
    TopicMetadata,
    create_topic,
    schema_value,
)
from sluicegate_danube.reference.stored.view import ClusterView
from sluicegate_danube.reference.stored.writes import Writes
from sluicegate_danube.reference.subscription import CallLater, Subscription
from sluicegate_danube.reference.topic import Topic

_SUBSCRIPTION = re.compile(r"[^/]+")


class StoredCluster(Cluster):
    """The topics of one broker.

    :param is_valid: whether the broker is registered; otherwise it refuses all calls.
    """

    def __init__(
        self,
        settings: Settings,
        call_later: CallLater,
        store: MetadataStore,
        view: ClusterView,
        writes: Writes,
        is_valid: Callable[[], bool],
    ) -> None:
        super().__init__(settings, 1, call_later)
        self.view = view
        self._store = store
        self._writes = writes
        self._is_valid = is_valid

    def check_registered(self) -> None:
        """Refuse calls to a broker that others may consider dead."""
        if not self._is_valid():
            text = "This broker is not registered with its cluster, redo the lookup"
            raise RefusedError(StatusCode.UNAVAILABLE, text)

    # -- what the store assigns ---------------------------------------------------------------------------

    def open(self, name: str, metadata: TopicMetadata) -> None:
        """Begin to serve a topic."""
        topic = self.topics.get(name) or super().make(name, metadata.reliable, 0)
        topic.schema_subject = metadata.schema_subject

    def close(self, name: str) -> None:
        """Stop serving a topic: disconnect its clients and drop its messages."""
        topic = self.topics.pop(name, None)
        if topic is not None:
            self.forget(topic)
            self._subscriptions -= len(topic.subscriptions)
            self._storage.drop(topic.log)

    def close_all(self) -> None:
        """Stop serving all topics."""
        for name in tuple(self.topics):
            self.close(name)

    # -- what the services ask ----------------------------------------------------------------------------

    def served(self, name: str, broker: int) -> Topic | None:
        """A topic that this broker serves; None if there is no such topic in the cluster."""
        self.check_registered()
        topic = self.find(name)
        if topic is None and self.view.knows(name):
            text = f"The topic {name} is not served by this broker, redo the lookup"
            raise RefusedError(StatusCode.UNAVAILABLE, text)
        return topic

    def topic_names(self) -> Collection[str]:
        """The names of all topics, wherever they are served."""
        return self.view.topics

    def make(self, name: str, reliable: bool, owner: int | None = None) -> Topic:
        """Provision a topic; the cluster decides which broker serves it.

        :raises RefusedError: always: the client is to look it up again.
        """
        if len(self.view.topics) >= self.settings.max_topics:
            return super().make(name, reliable, owner)  # which refuses it, or there is room here now
        self._writes.add(partial(create_topic, self._store, name, reliable=reliable))
        text = "The topic was created, need to redo the lookup to find its broker"
        raise RefusedError(StatusCode.UNAVAILABLE, text)

    def subscription_names(self, name: str) -> list[str]:
        """Those of a topic, wherever it is served."""
        topic = self.topics.get(name)
        return sorted({*self.view.subscriptions(name), *(topic.subscriptions if topic is not None else ())})

    def assign_schema(self, topic: Topic, subject: str) -> None:
        """Assign a schema subject to a topic."""
        super().assign_schema(topic, subject)
        self._writes.add(partial(self._store.put, topic_key(topic.name, SCHEMA), schema_value(subject)))

    def add_producer(self, topic: Topic, name: str) -> int:
        """A producer's id, which the store keeps."""
        is_new = name not in topic.producers
        number = super().add_producer(topic, name)
        if is_new:
            self._writes.add(partial(self._store.put, topic_key(topic.name, f"producers/{number}"), EMPTY))
        return number

    def topic_of(self, producer_id: int, broker: int) -> Topic | None:
        """The topic of a producer that this broker knows."""
        self.check_registered()
        return super().topic_of(producer_id, broker)

    def add_consumer(self, topic: Topic, request: pb.ConsumerRequest) -> Consumer:
        """A consumer of a subscription, which the store keeps."""
        consumer = super().add_consumer(topic, request)
        key = topic_key(topic.name, f"subscriptions/{request.subscription}")
        if _SUBSCRIPTION.fullmatch(request.subscription) and key not in self.view.durable.entries:
            self._writes.add(partial(self._store.put, key, EMPTY))
        return consumer

    def consumer(self, consumer_id: int, broker: int) -> tuple[Subscription, Consumer] | None:
        """A consumer that this broker knows, with its subscription."""
        return super().consumer(consumer_id, broker) if self._is_valid() else None


class StoredNode(Node):
    """One broker of a stored cluster, as its services see it."""

    def served_by(self, name: str, context: Context) -> tuple[bool, str, str] | None:
        """Where the store says that a topic is served."""
        cluster = self.cluster
        if not isinstance(cluster, StoredCluster):
            raise TypeError("a StoredNode needs a StoredCluster")
        cluster.check_registered()
        cluster.find(name)
        view = cluster.view
        owner = view.owner(name)
        if owner is None:
            if not view.knows(name):
                return None
            text = f"The topic {name} waits for a broker, redo the lookup"
            raise RefusedError(StatusCode.UNAVAILABLE, text)
        url = view.url(owner)
        return url == self.urls[0], url, url
