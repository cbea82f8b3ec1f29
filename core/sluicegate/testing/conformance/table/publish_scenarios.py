"""How large messages may be, and how many of them may be published in a time.

Rates that refuse are low, so that nothing to speak of comes in while a scenario is played.
"""

import tempfile
from typing import Final

from sluicegate.testing.conformance.scenarios import Ability, Scenario
from sluicegate.testing.conformance.steps import Publish

_KIB = 1024
_SIZE = "max_message_size"


def _refusing(policy: str, rate: str, size: int, *, of_broker: bool = False) -> Scenario:
    """Two messages and no more; brokers may count some bytes of their own to each.

    Both clients have published before they are refused: Kafka knows nobody by a message that is refused.
    """
    settings = {policy: rate, "burst_seconds": 250, "on_limit": {policy: "reject"}}
    return Scenario(
        name=f"{policy}, refusing",
        shows=[policy],
        policies={} if of_broker else settings,
        broker=settings if of_broker else {},
        steps=[
            Publish(who="a", size=size),
            Publish(who="b", size=size),
            Publish(who="a", size=size, refused=policy),
            Publish(who="b", size=size, refused=policy),
        ],
        decisions=[("reject", policy)] * 2,
        counts={"published": 2, "rejected": 2},
    )


def _waiting(policy: str, rate: str, size: int, *, of_broker: bool = False) -> Scenario:
    """Two messages at once, and the others one by one, ten a second; of all clients together."""
    settings = {policy: rate, "burst_seconds": 0.2, "on_limit": {policy: "delay"}}
    return Scenario(
        name=f"{policy}, waiting",
        shows=[policy],
        policies={} if of_broker else settings,
        broker=settings if of_broker else {},
        steps=[
            Publish(who="a", times=4, size=size, at_least_s=0.18),
            Publish(who="b", times=3, size=size),
        ],
        counts={"published": 7, "rejected": 0},
    )


PUBLISHING: Final = (
    Scenario(
        name="message size",
        shows=[_SIZE],
        policies={_SIZE: "4KiB"},
        steps=[
            Publish(who="a", size=4 * _KIB),
            Publish(who="a", size=4 * _KIB + 1, refused=_SIZE),
            Publish(who="a"),
        ],
        decisions=[("reject", _SIZE)],
        counts={"published": 2, "rejected": 1},
    ),
    Scenario(
        name="size of compressed messages",
        shows=["inspect"],
        policies={_SIZE: "4KiB", "inspect": True},
        steps=[
            Publish(who="a", size=4 * _KIB + 1, compressed=True, refused=_SIZE),
            Publish(who="a", size=_KIB, compressed=True),
        ],
        decisions=[("reject", _SIZE)],
        counts={"published": 1, "rejected": 1},
        needs=frozenset({Ability.COMPRESS}),
    ),
    Scenario(
        name="what is too large takes nothing from a rate",
        shows=[_SIZE, "max_publish_rate"],
        policies={
            _SIZE: "1KiB",
            "max_publish_rate": "0.01/s",
            "burst_seconds": 200,
            "on_limit": {"max_publish_rate": "reject"},
        },
        steps=[
            Publish(who="a", size=2 * _KIB, refused=_SIZE),
            Publish(who="a", size=2 * _KIB, refused=_SIZE),
            Publish(who="a", times=2),
        ],
        decisions=[("reject", _SIZE)] * 2,
        counts={"published": 2, "rejected": 2},
    ),
    Scenario(
        name="0 is unlimited",
        shows=[_SIZE, "max_producers_per_topic"],
        policies={_SIZE: 0, "max_producers_per_topic": 0},
        broker={_SIZE: "1KiB", "max_producers_per_topic": 1},
        steps=[Publish(who="a"), Publish(who="b", size=32 * _KIB)],
        counts={"producers": 2, "published": 2},
    ),
    Scenario(
        name="storage quota",
        shows=["storage_quota"],
        broker={
            "publish_quota": "1000/s",
            "storage_hard_min_free_bytes": 2**50,
        },
        entry={
            "storage": {"source": "path", "paths": [tempfile.gettempdir()], "interval": "1s"},
            "max_hold": "200ms",
        },
        steps=[Publish(who="a", refused="storage_quota")],
        decisions=None,  # Pulsar refuses a new producer, others let the message wait in vain
        counts={"published": 0},
        replayed=False,
    ),
    _refusing("max_publish_rate", "0.01/s", 10),
    _refusing("max_publish_rate_bytes", "10B/s", 1000),
    _refusing("publish_quota", "0.01/s", 10, of_broker=True),
    _refusing("publish_quota_bytes", "10B/s", 1000, of_broker=True),
    _refusing("principal_publish_quota", "0.01/s", 10, of_broker=True),
    _refusing("principal_publish_quota_bytes", "10B/s", 1000, of_broker=True),
    _waiting("max_publish_rate", "10/s", 10),
    _waiting("max_publish_rate_bytes", "10kB/s", 1000),
    _waiting("publish_quota", "10/s", 10, of_broker=True),
    _waiting("publish_quota_bytes", "10kB/s", 1000, of_broker=True),
    _waiting("principal_publish_quota", "10/s", 10, of_broker=True),
    _waiting("principal_publish_quota_bytes", "10kB/s", 1000, of_broker=True),
)
