"""When messages are delivered: rates, quotas, delays and unacknowledged messages."""

from typing import Final

from sluicegate.testing.conformance.scenarios import Ability, Scenario
from sluicegate.testing.conformance.steps import Acknowledge, Publish, Receive, ReceiveNothing, Subscribe

_UNACKED = "max_unacked_messages_per_consumer"
_DELAY = "fixed_delivery_delay"


def _dispatched(policy: str, rate: str, size: int, *, of_broker: bool = False) -> Scenario:
    """Two messages at once, and the others one by one, ten a second."""
    settings = {policy: rate, "burst_seconds": 0.2}
    return Scenario(
        name=policy,
        shows=[policy],
        policies={} if of_broker else settings,
        broker=settings if of_broker else {},
        steps=[
            Subscribe(who="c"),
            Publish(who="p", times=6, size=size),
            Receive(who="c", count=6),
            ReceiveNothing(who="c"),
        ],
        counts={"published": 6, "delivered": 6, "rejected": 0},
    )


DELIVERING: Final = (
    _dispatched("max_dispatch_rate", "10/s", 10),
    _dispatched("max_dispatch_rate_bytes", "10kB/s", 1000),
    _dispatched("max_subscription_dispatch_rate", "10/s", 10),
    _dispatched("max_subscription_dispatch_rate_bytes", "10kB/s", 1000),
    _dispatched("consume_quota", "10/s", 10, of_broker=True),
    _dispatched("consume_quota_bytes", "10kB/s", 1000, of_broker=True),
    _dispatched("principal_consume_quota", "10/s", 10, of_broker=True),
    _dispatched("principal_consume_quota_bytes", "10kB/s", 1000, of_broker=True),
    Scenario(
        name="dispatch rate of each subscription on its own",
        shows=["max_subscription_dispatch_rate"],
        policies={"max_subscription_dispatch_rate": "10/s", "burst_seconds": 0.2},
        steps=[
            Subscribe(who="c", subscription="one"),
            Subscribe(who="d", subscription="two"),
            Publish(who="p", times=5),
            Receive(who="c", count=5),
            Receive(who="d", count=5),
        ],
        counts={"published": 5, "delivered": 10},
    ),
    Scenario(
        name="unacknowledged messages",
        shows=[_UNACKED],
        policies={_UNACKED: 2},
        steps=[
            Subscribe(who="c"),
            Publish(who="p", times=5),
            Receive(who="c", count=2),
            ReceiveNothing(who="c"),
            Acknowledge(who="c"),
            Receive(who="c"),
            ReceiveNothing(who="c"),
            Acknowledge(who="c", count=2),
            Receive(who="c", count=2),
        ],
        counts={"delivered": 5},
        needs=frozenset({Ability.ACKNOWLEDGE}),
    ),
    Scenario(
        name="unacknowledged messages of one consumer do not hold another",
        shows=[_UNACKED],
        policies={_UNACKED: 1},
        steps=[
            Subscribe(who="c", subscription="one"),
            Subscribe(who="d", subscription="two"),
            Publish(who="p"),
            Receive(who="c"),
            Receive(who="d"),
            Publish(who="p"),
            ReceiveNothing(who="c"),
            Acknowledge(who="d"),
            Receive(who="d"),
        ],
        counts={"delivered": 3},
        needs=frozenset({Ability.ACKNOWLEDGE}),
    ),
    Scenario(
        name="longest delay",
        shows=["max_delivery_delay"],
        policies={"max_delivery_delay": "1s"},
        steps=[
            Subscribe(who="c"),
            Publish(who="p", delay_ms=60_000, refused="max_delivery_delay"),
            Publish(who="p", delay_ms=600),
            Receive(who="c", older_s=0.6),
        ],
        decisions=[("reject", "max_delivery_delay")],
        counts={"published": 1, "rejected": 1},
        needs=frozenset({Ability.DELAY}),
    ),
    Scenario(
        name="a delay that a header says",
        shows=["delay_header", "max_delivery_delay"],
        policies={"delay_header": "deliver-after", "max_delivery_delay": "1s"},
        steps=[
            Subscribe(who="c"),
            Publish(who="p", headers={"deliver-after": b"1h"}, refused="max_delivery_delay"),
            Publish(who="p", headers={"deliver-after": b"600ms"}),
            Receive(who="c", older_s=0.6),
        ],
        decisions=[("reject", "max_delivery_delay")],
        counts={"published": 1, "rejected": 1},
        needs=frozenset({Ability.HEADERS}),
    ),
    Scenario(
        name="fixed delay",
        shows=[_DELAY],
        policies={_DELAY: "600ms"},
        steps=[
            Subscribe(who="c"),
            Publish(who="p", times=3),
            Receive(who="c", count=3, older_s=0.6),
        ],
        counts={"published": 3},  # where no rate applies, deliveries may pass uncounted
    ),
)
