"""What a case is made of: calls by name, and what comes of each, whichever door they go through."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

TOPIC = "/default/orders"


@dataclass(frozen=True, kw_only=True)
class Refused:
    """How a call ends that a policy refuses."""

    policy: str
    text: str
    """Without the decision's id; `{}` stands for a number that depends on the time."""
    code: str = "RESOURCE_EXHAUSTED"
    limit: int
    current: int | None = None
    """None if it depends on the time."""
    level: str = "topic"
    retry: bool = False
    """Whether the client is told when to try again."""


@dataclass(frozen=True)
class Step:
    """One thing to do, and what is expected of it."""

    do: str
    """Name of a method of `Actors`."""
    arguments: Mapping[str, Any]
    refused: Refused | None = None


@dataclass(frozen=True)
class Case:
    """One behaviour of the gateway: the same through every door."""

    name: str
    policies: Mapping[str, Any]
    """As in the policy file."""
    steps: Sequence[Step]
    entry: Mapping[str, Any] = field(default_factory=dict)
    """More of the broker's entry in the file."""
    decisions: Sequence[tuple[str, str]] | None = None
    """Action and policy of each decision that is not a plain allow; None where their number is a matter of
    time."""


def on_topic(**settings: Any) -> dict[str, Any]:
    """Policies of the one topic."""
    return {"topics": [{"name": TOPIC, **settings}]}


def attach(producer: str, refused: Refused | None = None, **more: Any) -> Step:
    """Create a producer.

    More: `topic`, `reliable`, `principal`, `at_least_s` (since the case's first attachment), `eventually`.
    """
    return Step("attach", {"producer": producer, **more}, refused)


def attach_until(producer: str, refused: Refused) -> Step:
    """Create one producer after the other until one is refused; the first is not."""
    return Step("attach_until", {"producer": producer}, refused)


def silence() -> Step:
    """Nothing is heard of anybody for an hour."""
    return Step("silence", {})


def publish(producer: str, refused: Refused | None = None, **more: Any) -> Step:
    """Send messages one after the other.

    More: `size` of each, `times`, `at_least_s` (since the case's first message).
    """
    return Step("publish", {"producer": producer, **more}, refused)


def publish_until(producer: str, at_least: int, refused: Refused, **more: Any) -> Step:
    """Send until one is refused, after at least `at_least`."""
    return Step("publish_until", {"producer": producer, "at_least": at_least, **more}, refused)


def subscribe(consumer: str, subscription: str, refused: Refused | None = None, **more: Any) -> Step:
    """Subscribe. More: as for `attach`."""
    return Step("subscribe", {"consumer": consumer, "subscription": subscription, **more}, refused)


def receive(consumer: str, count: int, **more: Any) -> Step:
    """Receive the next messages, which are in order.

    More: `at_least_s` (for all of them), `older_s` (age of each).
    """
    return Step("receive", {"consumer": consumer, "count": count, **more})


def receives_nothing(consumer: str) -> Step:
    """Nothing comes for a while."""
    return Step("receives_nothing", {"consumer": consumer})


def acknowledge(consumer: str, count: int) -> Step:
    """Acknowledge what was received first."""
    return Step("acknowledge", {"consumer": consumer, "count": count})


def leave(consumer: str) -> Step:
    """End a consumer's stream."""
    return Step("leave", {"consumer": consumer})


def gets_part(consumer: str, of: int, at_least: int) -> Step:
    """So many messages at least arrive, in order, and the others are counted as dropped."""
    return Step("gets_part", {"consumer": consumer, "of": of, "at_least": at_least})
