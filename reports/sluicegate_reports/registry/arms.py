"""Properties of systems and doors, one row each. No other module compares their names."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

REFERENCE_LABEL = "reference broker, not Danube"
"""Label of every figure that was measured on Danube's reference broker."""
NATIVE_DOOR = "native"
"""The door of clients that connect directly to a system, which applies its own policies."""
DIRECT_DOOR = "direct"
"""The door of clients that connect directly to a system without any policy."""

PRODUCERS = "max_producers_per_topic"
SUBSCRIPTIONS = "max_subscriptions_per_topic"
CONSUMERS = "max_consumers_per_topic"
MEMBERS = "max_consumers_per_subscription"
OF_CONSUMERS = (SUBSCRIPTIONS, CONSUMERS, MEMBERS)

_NO_CODES: Mapping[str, tuple[str, ...]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Lack:
    """A policy that a system lacks."""

    policy: str
    why: str
    door: str = ""
    """The door where it is missing; empty for every door."""


@dataclass(frozen=True, slots=True)
class System:
    """One kind of broker. One with only a name counts as unknown."""

    name: str
    """As in the column `system`."""
    label: str = ""
    """Label that must stand beside its name, unless the run states another."""
    colour: int | None = None
    """Colour on the page, 1 to 6; None derives one of 4 to 6 from the name."""
    port: int = 9092
    """On which its brokers usually listen: a placeholder in files that people complete."""
    unordered_calls: bool = False
    """Whether each message is a call of its own, so that two concurrent ones have no order."""
    waits_long: bool = False
    """Whether clients are held without a limit, as no retriable error is safe."""
    codes: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: _NO_CODES)
    """Policies on attached clients that answer with a code, by the client library's name of it."""
    texts: tuple[tuple[str, str], ...] = ()
    """Phrases of its own refusals that identify one policy, each with that policy."""
    lacks: tuple[Lack, ...] = ()
    """Policies that do not apply to it."""

    def lack(self, policy: str, door: str) -> str:
        """Why a policy is missing at a door; empty if it is not."""
        return next(
            (each.why for each in self.lacks if each.policy == policy and each.door in ("", door)), ""
        )


@dataclass(frozen=True, slots=True)
class Door:
    """One access path of clients to a system."""

    name: str
    """As in the column `door`."""
    mark: int = 4
    """Of its series on the page: 1 circle, 2 square, 3 triangle, 4 diamond."""
    gate: bool = True
    """Whether a gate of ours decides there and writes the decision log; otherwise the system itself does."""
    judged: bool = True
    """Whether policies hold there; otherwise it is played briefly, for what messages cost without them."""


_NO_ASKED_DELAY = Lack("max_delivery_delay", "its clients cannot ask for a delivery delay")
_NO_SINGLE = Lack(
    "max_unacked_messages_per_consumer", "a group commits offsets and acknowledges no single message"
)

_OF_KAFKA = MappingProxyType(
    {
        "PolicyViolationError": (PRODUCERS,),
        "GroupAuthorizationFailedError": OF_CONSUMERS,
        "GroupMaxSizeReachedError": OF_CONSUMERS,
    }
)

SYSTEMS = (
    System("kafka", colour=1, codes=_OF_KAFKA, lacks=(_NO_ASKED_DELAY, _NO_SINGLE)),
    System("kafka-strimzi", codes=_OF_KAFKA, lacks=(_NO_ASKED_DELAY, _NO_SINGLE)),
    System(
        "pulsar",
        colour=2,
        port=6650,
        waits_long=True,
        codes=MappingProxyType(
            {
                "ProducerBusy": (PRODUCERS,),
                "ConsumerBusy": (CONSUMERS, MEMBERS),
                "NotAllowedError": (SUBSCRIPTIONS,),
            }
        ),
        texts=(
            ("reached max producers limit", PRODUCERS),
            ("Exceed the maximum number of subscriptions of the topic", SUBSCRIPTIONS),
            ("Topic reached max consumers limit", CONSUMERS),
            ("Subscription reached max consumers limit", MEMBERS),
        ),
    ),
    System(
        "danube",
        label=REFERENCE_LABEL,
        colour=3,
        port=6650,
        unordered_calls=True,
        codes=MappingProxyType({"RESOURCE_EXHAUSTED": (PRODUCERS, *OF_CONSUMERS)}),
        lacks=(_NO_ASKED_DELAY,),
    ),
)
"""The systems that come with the product; codes as in docs/capabilities.md."""

DOORS = (
    Door("proxy", 1),
    Door(NATIVE_DOOR, 2, gate=False),
    Door("interceptor", 3),
    Door("client", 4),
    Door(DIRECT_DOOR, gate=False, judged=False),
)
"""The doors that come with the product."""
