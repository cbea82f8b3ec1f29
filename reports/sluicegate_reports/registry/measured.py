"""The figures that show whether a policy is kept, one row for each policy."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType


class Family(StrEnum):
    """Policies that are judged by the same figures."""

    RATE = "rate"
    """Messages, bytes or attachments a second; `limit` is the rate."""
    COUNT = "count"
    """How many may be attached at once; `limit` is the number."""
    SIZE = "size"
    """`limit` is the largest payload in bytes."""
    DELAY = "delay"
    """`limit` is the delivery delay, in ms."""
    ASKED_DELAY = "asked_delay"
    """`limit` is the longest delay that a producer may ask for, in ms."""
    UNACKED = "unacked"
    """`limit` is the number of unacknowledged messages of a consumer."""


@dataclass(frozen=True, slots=True)
class Measured:
    """How a policy is measured."""

    family: Family
    operation: str
    """Operation of the decision log that it decides."""
    unit: str
    """Of its limit."""
    by_subscription: bool = False
    """True if each subscription has a limit of its own."""


_PER_S = {"messages": "messages/s", "bytes": "bytes/s"}


def _rate(operation: str, counted: str, *, by_subscription: bool = False) -> Measured:
    return Measured(Family.RATE, operation, _PER_S[counted], by_subscription)


POLICIES: Mapping[str, Measured] = MappingProxyType(
    {
        "max_producers_per_topic": Measured(Family.COUNT, "attach_producer", "producers"),
        "max_subscriptions_per_topic": Measured(Family.COUNT, "create_subscription", "subscriptions"),
        "max_consumers_per_topic": Measured(Family.COUNT, "attach_consumer", "consumers"),
        "max_consumers_per_subscription": Measured(Family.COUNT, "attach_consumer", "consumers", True),
        "max_publish_rate": _rate("publish", "messages"),
        "max_publish_rate_bytes": _rate("publish", "bytes"),
        "max_dispatch_rate": _rate("dispatch", "messages"),
        "max_dispatch_rate_bytes": _rate("dispatch", "bytes"),
        "max_subscription_dispatch_rate": _rate("dispatch", "messages", by_subscription=True),
        "max_subscription_dispatch_rate_bytes": _rate("dispatch", "bytes", by_subscription=True),
        "max_message_size": Measured(Family.SIZE, "publish", "bytes"),
        "max_unacked_messages_per_consumer": Measured(Family.UNACKED, "dispatch", "messages"),
        "connection_rate_limit": Measured(Family.RATE, "attach", "attachments/s"),
        "fixed_delivery_delay": Measured(Family.DELAY, "dispatch", "ms"),
        "max_delivery_delay": Measured(Family.ASKED_DELAY, "publish", "ms"),
    }
)
"""The policies that come with the product, by name in the file."""
