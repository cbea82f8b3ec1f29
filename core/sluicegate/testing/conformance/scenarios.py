"""What a scenario is: policies, what clients do, and what comes of it at every door."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from sluicegate.testing.conformance.steps import CreateTopic, Step


class Ability(StrEnum):
    """What the clients of a door can do beyond publishing and receiving."""

    ACKNOWLEDGE = "acknowledge"
    """Acknowledge single messages."""
    HEADERS = "headers"
    """Publish messages with headers, properties or attributes, and show those of received ones."""
    SCHEMA = "schema"
    """Name the schema of a message."""
    DELAY = "delay"
    """Ask for a delivery delay."""
    COMPRESS = "compress"
    """Compress messages."""
    CREATE_TOPIC = "create topics"
    """Create topics by a request."""
    PRINCIPAL = "principal"
    """Log in as different principals."""
    CLIENT_ID = "client id"
    """Tell the broker the name of the client."""
    PRODUCERS_LEAVE = "producers leave"
    """End a producer so that its place is free."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One behaviour, which is the same through every door."""

    name: str
    shows: Sequence[str]
    """The policies that it shows; it does not apply to a door to which one of them does not."""
    policies: Mapping[str, Any] = field(default_factory=dict)
    """Of its topic, as in the policy file."""
    scopes: Sequence[Mapping[str, Any]] = ()
    """Of its topic for some clients alone: further entries, each with `for`."""
    broker: Mapping[str, Any] = field(default_factory=dict)
    """Of the whole broker, as in the policy file; the scenario then gets a gateway of its own."""
    entry: Mapping[str, Any] = field(default_factory=dict)
    """More of the broker's entry in the file; the scenario then gets a gateway of its own."""
    steps: Sequence[Step]
    decisions: Sequence[tuple[str, str]] | None = ()
    """Action (`would_reject` if it is only observed) and policy of each decision that is neither a plain
    allow nor a delay, in order. How many delays there are is a matter of time. None if systems refuse by
    decisions of their own."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Of the topic at the end, as `counts_of` names them; those that are left out are of no account."""
    needs: frozenset[Ability] = frozenset()
    replayed: bool = True
    """False if a decision depends on what was measured outside, so that it cannot be decided again."""

    @property
    def alone(self) -> bool:
        """Whether it needs a gateway of its own."""
        return bool(self.broker or self.entry)

    @property
    def creates(self) -> bool:
        """Whether its clients create its topic."""
        return any(isinstance(step, CreateTopic) for step in self.steps)


def slug(name: str) -> str:
    """A name in characters that every broker allows in the name of a topic."""
    return "-".join("".join(c if c.isalnum() else " " for c in name).split())
