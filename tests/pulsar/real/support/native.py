"""How Pulsar 4.2 itself answers when its own policies refuse; measured by test_native.py.

Tests of the gateway compare with these: a client must not be able to tell the gateway's answer from the
broker's.
"""

from dataclasses import dataclass

from sluicegate_pulsar.codec.pulsar_pb2 import ServerError


@dataclass(frozen=True, slots=True)
class Native:
    """One policy of Pulsar and the answer to what is beyond it."""

    policy: str
    """Its name in the admin API of topics."""
    code: ServerError
    text: str
    """With `{topic}` for the topic's full name."""
    python: str
    """What pulsar-client reports; nothing if it resends for ever, with all that is behind it."""
    java: str
    """The Java client's exception, whose text holds `text`."""

    def told(self, topic: str) -> str:
        """The text for a topic."""
        return self.text.format(topic=topic)


ATTACHING = {
    "max_producers_per_topic": Native(
        "maxProducers",
        ServerError.PRODUCER_BUSY,
        "Topic '{topic}' reached max producers limit",
        "ProducerBusy",
        "ProducerBusyException",
    ),
    "max_consumers_per_topic": Native(
        "maxConsumers",
        ServerError.CONSUMER_BUSY,
        "Topic reached max consumers limit",
        "ConsumerBusy",
        "ConsumerBusyException",
    ),
    "max_consumers_per_subscription": Native(
        "maxConsumersPerSubscription",
        ServerError.CONSUMER_BUSY,
        "Subscription reached max consumers limit",
        "ConsumerBusy",
        "ConsumerBusyException",
    ),
    "max_subscriptions_per_topic": Native(
        "maxSubscriptionsPerTopic",
        ServerError.NOT_ALLOWED_ERROR,
        "Exceed the maximum number of subscriptions of the topic: {topic}",
        "NotAllowedError",
        "NotAllowedException",
    ),
}
"""What is answered to PRODUCER and SUBSCRIBE, by the gate's name of the policy."""

SENDING = {
    # Of metadata and payload together, where the gateway counts the payload alone.
    "max_message_size": Native(
        "maxMessageSize",
        ServerError.NOT_ALLOWED_ERROR,
        "Exceed maximum message size",
        "",
        "NotAllowedException",
    ),
    "max_delivery_delay": Native(
        "delayedDelivery",
        ServerError.NOT_ALLOWED_ERROR,
        "Exceeds max allowed delivery delay of 2000 milliseconds",
        "",
        "NotAllowedException",
    ),
}
"""What is answered to SEND."""

MAX_DELAY_MS = 2_000
"""The delay in the text above."""

TOO_BIG_PYTHON, TOO_BIG_JAVA = "MessageTooBig", "InvalidMessageException"
"""What the clients raise by themselves for messages larger than what CONNECTED told."""

DEFAULT_MAX_MESSAGE_BYTES = 5_242_880
"""What CONNECTED tells unless the broker is set up otherwise."""


def rate(policy: str, messages_per_s: int) -> dict[str, object]:
    """The value of `publishRate`, `dispatchRate` and `subscriptionDispatchRate`: no error, only slowness."""
    word = "publish" if policy == "publishRate" else "dispatch"
    value: dict[str, object] = {
        f"{word}ThrottlingRateInMsg": messages_per_s,
        f"{word}ThrottlingRateInByte": -1,
    }
    return value if policy == "publishRate" else value | {"ratePeriodInSecond": 1}


def max_delay(delay_ms: int = MAX_DELAY_MS) -> dict[str, object]:
    """The value of `delayedDelivery`."""
    return {"active": True, "tickTime": 100, "maxDeliveryDelayInMillis": delay_ms}
