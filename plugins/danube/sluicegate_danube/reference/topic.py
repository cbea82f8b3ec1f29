"""A topic: its messages, producers and subscriptions."""

from danube.proto import DanubeApi_pb2 as pb
from grpc import StatusCode

from sluicegate_danube.reference.broker_errors import RefusedError
from sluicegate_danube.reference.broker_settings import Settings
from sluicegate_danube.reference.choosing import EXCLUSIVE, chooser
from sluicegate_danube.reference.log import Storage
from sluicegate_danube.reference.subscription import CallLater, Reliable, Subscription, Unreliable


class Topic:
    """A topic, or one partition of a partitioned topic.

    :param reliable: keep each message until every subscription has acknowledged it.
    :param owner: index of the broker that serves it.
    """

    def __init__(
        self,
        name: str,
        reliable: bool,
        owner: int,
        settings: Settings,
        storage: Storage,
        call_later: CallLater,
    ) -> None:
        self.name = name
        self.reliable = reliable
        self.owner = owner
        self.producers: dict[str, int] = {}
        """Ids, by name."""
        self.subscriptions: dict[str, Subscription] = {}
        self.schema_subject = ""
        self.log = storage.make_log(self._needed_from)
        self._settings = settings
        self._call_later = call_later

    def publish(self, message: pb.StreamMessage) -> None:
        """Store a message and give it to the subscriptions. Unreliable messages are kept too, for inspection.

        :raises RefusedError: if a reliable topic has no room for it.
        """
        if not self.log.append(message) and self.reliable:
            raise RefusedError(StatusCode.RESOURCE_EXHAUSTED, f"no room for messages of {self.name} is left")
        for subscription in self.subscriptions.values():
            subscription.publish(message)

    def subscription(self, name: str, kind: int, consumer: str) -> Subscription:
        """The subscription for a consumer, made if there is none.

        :param kind: ConsumerRequest.SubscriptionType.
        :param consumer: the consumer's name.
        :raises RefusedError: if the consumer cannot have it.
        """
        subscription = self.subscriptions.get(name)
        if subscription is None:
            subscription = self.subscriptions[name] = self._made(kind)
        others = (each for each in subscription.consumers.values() if each.attached and each.name != consumer)
        if subscription.kind == EXCLUSIVE and any(others):
            text = f"Not able to subscribe to the topic {self.name}: {name} is Exclusive and has a consumer"
            raise RefusedError(StatusCode.PERMISSION_DENIED, text)
        return subscription

    def _made(self, kind: int) -> Subscription:
        choose = chooser(kind)
        if choose is None:
            text = f"{kind} is not a type of subscription"
            raise RefusedError(StatusCode.INVALID_ARGUMENT, text)
        if self.reliable:
            return Reliable(kind, choose, self._settings, self.log, self._call_later)
        return Unreliable(kind, choose, self._settings)

    def _needed_from(self) -> int:
        needed = (subscription.needed_from() for subscription in self.subscriptions.values())
        return min((offset for offset in needed if offset is not None), default=self.log.end)
