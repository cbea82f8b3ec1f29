"""The state of the broker without its sockets: topics, partitions, policies."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from sluicegate_pulsar.codec import pulsar_pb2 as pb
from sluicegate_pulsar.reference.broker_errors import RefusedError
from sluicegate_pulsar.reference.consumers import Command
from sluicegate_pulsar.reference.delays import DelaySettings
from sluicegate_pulsar.reference.policies import DelayedDelivery
from sluicegate_pulsar.reference.subscription import Subscription
from sluicegate_pulsar.reference.topic import Topic
from sluicegate_pulsar.reference.topic_names import Name, parse_name

LABEL = "sluicegate-reference-broker"
"""What it calls itself where a broker sends its version. It is not Pulsar."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a reference broker behaves."""

    cluster: str = "reference"
    tick_ms: int = 100
    """Tick of delayed delivery."""
    strict: bool = True
    """False delivers up to one tick before the time, as Pulsar does unless told otherwise."""
    max_delay_ms: int = 0
    """The longest delay that producers may ask for where no policy says otherwise; 0 for any."""
    max_message_size: int = 5 << 20
    """Bytes."""
    tokens: Mapping[str, str] = field(default_factory=dict)
    """Principal of each token; none: everybody is let in."""
    broker_entry_metadata: bool = False
    """Send broker entry metadata to clients that can read it."""


class Broker:
    """The state of one broker. Call all of its methods from one thread.

    :param settings: how it behaves.
    :param wake: called with a subscription and the time at which to pump it, in ms since the epoch.
    """

    def __init__(self, settings: Settings, wake: Callable[[Subscription, int], None]) -> None:
        self.settings = settings
        self.service_url = ""
        self.admin_url = ""
        self.topics: dict[str, Topic] = {}
        self.partitions: dict[str, int] = {}
        """Partitioned topics, and how many partitions each has."""
        self.namespace_delays: dict[str, DelayedDelivery] = {}
        self.topic_delays: dict[str, DelayedDelivery] = {}
        self._wake = wake
        self._named = 0
        self._ledgers = 0

    @property
    def default_delay(self) -> DelayedDelivery:
        """The default settings of delayed delivery."""
        return DelayedDelivery(True, self.settings.tick_ms, self.settings.max_delay_ms)

    def topic(self, text: str) -> Topic:
        """A topic by its name, created if it does not exist.

        :raises RefusedError: if the name is invalid, or names a partitioned topic or a missing partition.
        """
        name = parse_name(text)
        topic = self.topics.get(name.full)
        if topic is not None:
            return topic
        if name.full in self.partitions:
            text = f"{name.full} is a partitioned topic: expected one of its partitions"
            raise RefusedError(pb.NOT_ALLOWED_ERROR, text)
        if name.partition >= self.partitions.get(name.parent, name.partition + 1):
            raise RefusedError(pb.TOPIC_NOT_FOUND, f"Illegal topic partition name {name.full}")
        self._ledgers += 1
        made = Topic(name, self._ledgers, DelaySettings(strict=self.settings.strict))
        self.topics[name.full] = made
        self.delay_of(name).apply(made.delay)
        return made

    def topics_of(self, namespace: str) -> list[Topic]:
        """The topics of a namespace, by name."""
        matching = (topic for topic in self.topics.values() if topic.name.namespace == namespace)
        return sorted(matching, key=lambda topic: topic.name.full)

    def subscriptions_of(self, name: Name) -> list[str]:
        """Names of the subscriptions of a topic, or of all its partitions."""
        return sorted({sub for topic in self._parts_of(name) for sub in topic.subscriptions})

    def make_partitions(self, name: Name, count: int) -> None:
        """Create a partitioned topic and its partitions.

        :raises RefusedError: if the name is taken.
        """
        if name.full in self.partitions or name.full in self.topics:
            raise RefusedError(pb.NOT_ALLOWED_ERROR, "This topic already exists")
        self.partitions[name.full] = count
        for number in range(count):
            self.topic(f"{name.full}-partition-{number}")

    def delay_of(self, name: Name) -> DelayedDelivery:
        """Settings of delayed delivery on a topic, which need not exist yet."""
        delays = self.topic_delays.get(name.parent) or self.namespace_delays.get(name.namespace)
        if delays is None:
            return self.default_delay
        return delays if delays.tick_ms > 0 else replace(delays, tick_ms=self.settings.tick_ms)

    def delays_changed(self) -> None:
        """Apply the policies to the topics that exist."""
        for topic in self.topics.values():
            self.delay_of(topic.name).apply(topic.delay)

    def carry_out(self, subscription: Subscription, commands: Iterable[Command]) -> None:
        """Carry out the commands of a subscription, whatever connections its consumers are on."""
        for command in commands:
            command.consumer.connection.carry_out(command)
        wake_at = subscription.wake_at()
        if wake_at is not None:
            self._wake(subscription, wake_at)

    def pump(self, topic: Topic, now_ms: int) -> None:
        """Deliver what is due on all subscriptions of a topic."""
        for subscription in topic.subscriptions.values():
            self.carry_out(subscription, subscription.pump(now_ms))

    def unload(self, name: Name) -> None:
        """Close all producers and consumers of a topic, or of its partitions; their clients reconnect."""
        for topic in self._parts_of(name):
            for producer in list(topic.producers.values()):
                producer.connection.close(producer)
            for subscription in list(topic.subscriptions.values()):
                self.carry_out(subscription, subscription.disconnect())

    def new_producer_name(self) -> str:
        """A name for a producer without one."""
        self._named += 1
        return f"{self.settings.cluster}-0-{self._named}"

    def _parts_of(self, name: Name) -> list[Topic]:
        count = self.partitions.get(name.full)
        if count is not None:
            return [self.topic(f"{name.full}-partition-{number}") for number in range(count)]
        topic = self.topics.get(name.full)
        return [topic] if topic is not None else []
