"""What a consumer has subscribed to, and which of its frames have to be read for that."""

from sluicegate.engine.gate import Gate
from sluicegate.model import Operation, OperationKind
from sluicegate_pulsar.codec import pulsar_pb2 as pb

_ONE_BY_ONE = frozenset({pb.Subscribe.EXCLUSIVE, pb.Subscribe.FAILOVER})
"""Subscription types on which brokers redeliver all that is unacknowledged, never single messages."""


class Subscriber:
    """A consumer as its SUBSCRIBE describes it.

    :param attach: the operation by which it was admitted; names topic, subscription and consumer.
    :param subscribe: the client's command.
    """

    __slots__ = ("attach", "durable", "id", "is_live", "one_by_one", "reliable", "topic")

    def __init__(self, attach: Operation, subscribe: pb.Subscribe) -> None:
        self.attach = attach
        self.topic = attach.topic
        """Full name."""
        self.id = subscribe.consumer_id
        """As the client numbers it on this connection."""
        self.durable = subscribe.durable
        self.one_by_one = subscribe.sub_type in _ONE_BY_ONE
        self.reliable = not attach.topic.startswith("non-persistent:")
        self.is_live = False
        """True once the broker has admitted it."""

    def admitted(self) -> None:
        """The broker has admitted it."""
        self.is_live = True

    def is_for(self, topic: str, subscription: str) -> bool:
        """Whether it consumes this topic under this subscription."""
        return (self.topic, self.attach.subscription) == (topic, subscription)

    def operation(self, kind: OperationKind) -> Operation:
        """A new operation of this consumer."""
        attach = self.attach
        return Operation(
            kind,
            attach.topic,
            principal=attach.principal,
            client=attach.client,
            subscription=attach.subscription,
            consumer=attach.consumer,
            reliable=self.reliable,
        )


class Watch:
    """Which frames of a consumer have to be read under the current policies.

    :param may_glance: whether a message that is late enough may pass without being read.
    """

    __slots__ = ("acknowledgements", "glances", "messages")

    def __init__(self, *, may_glance: bool) -> None:
        self.messages = False
        """True if its messages have to be read."""
        self.acknowledgements = False
        """True if its acknowledgements have to be read."""
        self.glances = may_glance
        """True where the broker applies delays: a message that is late enough passes without being read."""

    def __bool__(self) -> bool:
        return self.messages or self.acknowledgements

    def follow(self, gate: Gate, *, reliable: bool) -> None:
        """Go by a gate."""
        asks = gate.asks(OperationKind.DISPATCH)
        # Brokers deliver at once on subscriptions that keep an order, on topics that are not persistent, and
        # wherever their delayed delivery is switched off, at any time: so the gateway reads every message.
        self.messages = asks or gate.delay is not None
        self.acknowledgements = reliable and gate.asks(OperationKind.ACKNOWLEDGE)
        self.glances = self.glances and not self.acknowledgements and not asks

    def read_on(self) -> None:
        """What was withheld still goes first, though no policy asks for it any more."""
        self.messages = True
