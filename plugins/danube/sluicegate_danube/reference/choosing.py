"""Which consumer of a subscription receives a message."""

import zlib
from collections.abc import Callable, Iterable, Mapping

from danube.proto import DanubeApi_pb2 as pb

from sluicegate_danube.reference.consumers import Consumer

EXCLUSIVE, SHARED, FAILOVER, KEY_SHARED = range(4)
"""ConsumerRequest.SubscriptionType of Danube's protocol."""
Choose = Callable[[pb.StreamMessage, list[Consumer]], Iterable[Consumer]]
"""Of the consumers that are there, those that may get a message, the preferred one first."""


def _first(_: pb.StreamMessage, consumers: list[Consumer]) -> Iterable[Consumer]:
    """Exclusive and Failover: the one that attached first."""
    return consumers[:1]


def _round_robin() -> Choose:
    """Shared: round robin, skipping those without room."""
    count = 0

    def choose(_: pb.StreamMessage, consumers: list[Consumer]) -> Iterable[Consumer]:
        nonlocal count
        count += 1
        at = count % len(consumers) if consumers else 0
        return consumers[at:] + consumers[:at]

    return choose


def _by_key(message: pb.StreamMessage, consumers: list[Consumer]) -> Iterable[Consumer]:
    """KeyShared: all messages of a key go to one consumer, as long as the consumers are the same."""
    key = message.routing_key or message.producer_name
    willing = sorted(
        (consumer for consumer in consumers if consumer.accepts(message.routing_key)),
        key=lambda consumer: consumer.name,
    )
    return [willing[zlib.crc32(key.encode()) % len(willing)]] if willing else []


_CHOICES: Mapping[int, Callable[[], Choose]] = {
    EXCLUSIVE: lambda: _first,
    SHARED: _round_robin,
    FAILOVER: lambda: _first,
    KEY_SHARED: lambda: _by_key,
}


def chooser(subscription_type: int) -> Choose | None:
    """The rule of a subscription type; None if there is no such type."""
    made = _CHOICES.get(subscription_type)
    return made() if made is not None else None
