"""How each policy is shown: the scenes of the demo (`sluicegate.demo.kinds`), with more clients.

A policy that drivers declare and that has no entry here fails `test_coverage.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from tests.matrix.kinds import connection_rate, storage

from sluicegate.demo.kinds import (
    attach_limits,
    dispatch_rates,
    fixed_delays,
    publish_rates,
    sizes,
    unacknowledged,
)
from sluicegate.demo.scene import Scene
from sluicegate_pulsar.demo import only_pulsar

CLIENTS: Final = 5
"""Clients that attach, publish or read at once."""
LIMIT: Final = 2
"""How many of them a count lets in."""
READERS: Final = 3
"""Clients that read, each with a subscription of its own."""
_EXCESS = CLIENTS - LIMIT

_GIVE_UP = ("go", "kafka-python")
"""Libraries that give up a producer of which one message is refused, by brokers as by the gate."""

MakeScene = Callable[[str], Scene]
"""Gives the scene for a topic."""


@dataclass(frozen=True, slots=True)
class Shown:
    """One way to show a policy."""

    policy: str
    scene: MakeScene
    how: str = ""
    """What tells it from the policy's other ways."""
    systems: tuple[str, ...] = ("danube", "kafka", "pulsar")
    partitions: int = 1
    """Of the topic, where the system has them by nature."""
    many: bool = True
    """False where it is of no account whether clients share a process: nothing is counted by client, or
    what is counted is shown by the same limit in another unit."""
    without: tuple[str, ...] = ()
    """Libraries that cannot take part."""

    @property
    def name(self) -> str:
        """Unique in the matrix."""
        return f"{self.policy}-{self.how}" if self.how else self.policy


def _longest_delay(topic: str) -> Scene:
    return replace(only_pulsar.SCENES[0], topic=topic)


def _publishing(make: Callable[..., Scene], policy: str) -> MakeScene:
    # Danube refuses what is above a rate unless it is told to let it wait, as the others do.
    return partial(make, policy=policy, producers=CLIENTS, on_limit={policy: "delay"})


_MESSAGES, _BYTES = publish_rates.publish_rate, publish_rates.publish_rate_bytes
_OF_TOPIC, _OF_EACH = dispatch_rates.dispatch_rate, dispatch_rates.subscription_dispatch_rate

ELSEWHERE: Final = frozenset(
    {
        "required_headers",
        "forbidden_headers",
        "remove_headers",
        "allowed_content",
        "delay_header",
        "read_only",
        "write_only",
        "client_id_pattern",
        "allow_topic_creation",
        "max_partitions",
        "consume_quota",
        "consume_quota_bytes",
        "principal_consume_quota",
        "principal_consume_quota_bytes",
    }
)
"""Policies that tests of their own show, and the conformance table at each door."""
SHOWN: Final[tuple[Shown, ...]] = (
    Shown("max_producers_per_topic", partial(attach_limits.producers, limit=LIMIT, excess=_EXCESS)),
    Shown(
        "max_subscriptions_per_topic",
        partial(attach_limits.subscriptions, limit=LIMIT, excess=_EXCESS),
        partitions=CLIENTS,
    ),
    Shown(
        "max_consumers_per_topic",
        partial(attach_limits.consumers_of_topic, limit=LIMIT, excess=_EXCESS, replaced=True),
        partitions=CLIENTS,
    ),
    Shown(
        "max_consumers_per_topic",
        partial(attach_limits.consumers_of_topic, limit=LIMIT, excess=_EXCESS, alone=True, replaced=True),
        "assign",
        ("kafka",),
    ),
    Shown(
        "max_consumers_per_subscription",
        partial(attach_limits.consumers_of_subscription, limit=LIMIT, excess=_EXCESS, replaced=True),
        partitions=CLIENTS,
    ),
    Shown("max_publish_rate", _publishing(_MESSAGES, "max_publish_rate")),
    Shown("max_publish_rate_bytes", _publishing(_BYTES, "max_publish_rate_bytes"), many=False),
    Shown("max_dispatch_rate", partial(_OF_TOPIC, readers=READERS)),
    Shown(
        "max_dispatch_rate_bytes",
        partial(_OF_TOPIC, unit="bytes", readers=READERS),
        many=False,
    ),
    Shown("max_subscription_dispatch_rate", partial(_OF_EACH, readers=READERS)),
    Shown(
        "max_subscription_dispatch_rate", partial(_OF_EACH, readers=READERS, alone=True), "assign", ("kafka",)
    ),
    Shown(
        "max_subscription_dispatch_rate_bytes",
        partial(_OF_EACH, unit="bytes", readers=READERS),
        many=False,
    ),
    Shown("max_message_size", sizes.message_size, many=False, without=_GIVE_UP),
    Shown(
        "inspect",
        partial(sizes.message_size, inspect=True),
        systems=("kafka",),
        many=False,
        without=_GIVE_UP,
    ),
    Shown(
        "fixed_delivery_delay",
        partial(fixed_delays.fixed_delay, alone=False),
        systems=("danube", "kafka"),
        many=False,
    ),
    Shown(
        "fixed_delivery_delay",
        partial(fixed_delays.fixed_delay, in_order=False, once=False),
        "shared",
        ("pulsar",),
        many=False,
    ),
    Shown(
        "fixed_delivery_delay",
        partial(fixed_delays.fixed_delay, exclusive=True),
        "exclusive",
        ("pulsar",),
        many=False,
    ),
    Shown("max_delivery_delay", _longest_delay, systems=("pulsar",), many=False, without=_GIVE_UP),
    Shown(
        "max_unacked_messages_per_consumer",
        partial(unacknowledged.unacknowledged, consumers=LIMIT),
        systems=("danube", "pulsar"),
    ),
    Shown("connection_rate_limit", partial(connection_rate.connection_rate, producers=CLIENTS)),
    Shown("publish_quota", _publishing(_MESSAGES, "publish_quota")),
    Shown("publish_quota_bytes", _publishing(_BYTES, "publish_quota_bytes"), many=False),
    Shown("principal_publish_quota", _publishing(_MESSAGES, "principal_publish_quota")),
    Shown("principal_publish_quota_bytes", _publishing(_BYTES, "principal_publish_quota_bytes"), many=False),
    Shown("storage_quota", partial(storage.storage_quota, producers=CLIENTS), many=False),
)
"""All ways of all policies."""
