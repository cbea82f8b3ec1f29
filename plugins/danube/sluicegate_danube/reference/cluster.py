"""The state of a cluster without sockets: topics, producers and consumers."""

import re
import secrets
from collections.abc import Collection

from danube.proto import DanubeApi_pb2 as pb
from grpc import StatusCode

from sluicegate_danube.reference.broker_errors import RefusedError
from sluicegate_danube.reference.broker_settings import Settings
from sluicegate_danube.reference.consumers import Consumer
from sluicegate_danube.reference.log import Storage
from sluicegate_danube.reference.schemas import Schemas
from sluicegate_danube.reference.subscription import CallLater, Subscription
from sluicegate_danube.reference.topic import Topic

_NAME = re.compile(r"/[\w-]*/[\w-]*")
_PARTITION = re.compile(r"-part-\d+")
"""What follows a topic's name in those of its partitions."""


class Cluster:
    """The state of a cluster. Call all of its methods from one thread.

    :param brokers: how many there are; topics are spread over them in turn.
    """

    def __init__(self, settings: Settings, brokers: int, call_later: CallLater) -> None:
        self.settings = settings
        self.brokers = brokers
        self.topics: dict[str, Topic] = {}
        self.schemas = Schemas(settings.max_schemas)
        self._producers: dict[int, Topic] = {}
        self._consumers: dict[int, tuple[Topic, Consumer]] = {}
        self._subscriptions = 0
        self._storage = Storage(settings.max_stored_bytes)
        self._call_later = call_later

    def find(self, name: str) -> Topic | None:
        """A topic by its name.

        :raises RefusedError: if the name is invalid.
        """
        if not _NAME.fullmatch(name):
            text = f"The topic: {name} has an invalid format, should be: /namespace_name/topic_name"
            raise RefusedError(StatusCode.INVALID_ARGUMENT, text)
        return self.topics.get(name)

    def partitions(self, name: str) -> list[str]:
        """The topic itself, or the partitions that it has.

        :raises RefusedError: if the name is invalid.
        """
        self.find(name)
        topics = self.topic_names()
        if name in topics:
            return [name]
        candidates = (each for each in topics if each.startswith(name))
        return sorted(each for each in candidates if _PARTITION.fullmatch(each, len(name)))

    def topic_names(self) -> Collection[str]:
        """The names of all topics of the cluster."""
        return self.topics.keys()

    def served(self, name: str, broker: int) -> Topic | None:
        """A topic that a broker serves; None if there is no such topic.

        :raises RefusedError: if another broker serves it.
        """
        topic = self.find(name)
        if topic is not None and topic.owner != broker:
            text = f"The topic {name} is served by another broker, redo the lookup"
            raise RefusedError(StatusCode.UNAVAILABLE, text)
        return topic

    def make(self, name: str, reliable: bool, owner: int | None = None) -> Topic:
        """Make a topic that does not exist.

        :param owner: the broker that serves it; the next one in turn if None.
        :raises RefusedError: if there is no room for it.
        """
        if len(self.topics) >= self.settings.max_topics:
            raise _full("topics", self.settings.max_topics)
        if owner is None:
            owner = len(self.topics) % self.brokers
        made = Topic(name, reliable, owner, self.settings, self._storage, self._call_later)
        self.topics[name] = made
        return made

    def subscription_names(self, name: str) -> list[str]:
        """Names of a topic's subscriptions; none if there is no such topic."""
        topic = self.topics.get(name)
        return sorted(topic.subscriptions) if topic is not None else []

    def namespaces(self) -> list[str]:
        """Names of all namespaces: those of topics, and those that the settings have policies for."""
        of_topics = (name.split("/")[1] for name in self.topics)
        return sorted({*of_topics, *self.settings.namespace_policies})

    def assign_schema(self, topic: Topic, subject: str) -> None:
        """Assign a schema subject to a topic."""
        topic.schema_subject = subject

    def add_producer(self, topic: Topic, name: str) -> int:
        """A producer's id; it keeps the one it had.

        :raises RefusedError: if there is no room for it.
        """
        number = topic.producers.get(name)
        if number is None:
            self._check_room("producers", len(self._producers))
            number = topic.producers[name] = secrets.randbits(63)
            self._producers[number] = topic
        return number

    def topic_of(self, producer_id: int, broker: int) -> Topic | None:
        """The topic of a producer that this broker knows."""
        topic = self._producers.get(producer_id)
        return topic if topic is not None and topic.owner == broker else None

    def add_consumer(self, topic: Topic, request: pb.ConsumerRequest) -> Consumer:
        """A consumer of a subscription, attached; it keeps the id it had.

        :raises RefusedError: if the subscription is Exclusive and has another, or if there is no room.
        """
        name = request.subscription
        if name not in topic.subscriptions:
            self._check_room("subscriptions", self._subscriptions)
        before = len(topic.subscriptions)
        subscription = topic.subscription(name, request.subscription_type, request.consumer_name)
        self._subscriptions += len(topic.subscriptions) - before
        consumer = subscription.consumers.get(request.consumer_name)
        if consumer is None:
            self._check_room("consumers", len(self._consumers))
            filters = tuple(request.key_filters)
            consumer = Consumer(secrets.randbits(63), request.consumer_name, name, filters)
            self._consumers[consumer.consumer_id] = (topic, consumer)
        subscription.attach(consumer)
        return consumer

    def consumer(self, consumer_id: int, broker: int) -> tuple[Subscription, Consumer] | None:
        """A consumer that this broker knows, with its subscription."""
        entry = self._consumers.get(consumer_id)
        if entry is None or entry[0].owner != broker:
            return None
        topic, consumer = entry
        return topic.subscriptions[consumer.subscription], consumer

    def forget(self, topic: Topic) -> None:
        """Detach all clients of a topic, as when it moves or its broker restarts. Subscriptions stay."""
        for producer_id in topic.producers.values():
            del self._producers[producer_id]
        topic.producers.clear()
        for subscription in topic.subscriptions.values():
            for consumer in list(subscription.consumers.values()):
                del self._consumers[consumer.consumer_id]
                consumer.take_over()  # ends its stream
                subscription.leave(consumer)
                del subscription.consumers[consumer.name]

    def _check_room(self, what: str, count: int) -> None:
        if count >= self.settings.max_attachments:
            raise _full(what, self.settings.max_attachments)


def _full(what: str, limit: int) -> RefusedError:
    return RefusedError(StatusCode.RESOURCE_EXHAUSTED, f"the reference broker has room for {limit} {what}")
