"""What the clients of a scenario do, in terms of every broker; data only.

There is no step for attaching a producer: it attaches when it first publishes, as on Kafka. Where producers
register, a door's producer registers before its first message.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing to do, and how it ends."""

    who: str
    """The client's name, which it also tells the broker; clients of one scenario have different ones."""
    refused: str = ""
    """The policy that refuses it; empty if it is allowed."""
    at_least_s: float = 0.0
    """How long it takes at least, in seconds, because it is held; never how long at most."""
    principal: str = ""
    """As whom the client logs in; told by its first step. Empty for anonymous."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Publish(Step):
    """Publish messages one after the other, each once the one before is accepted. The last one is refused."""

    times: int = 1
    size: int = 10
    """Bytes of each value, at least 8."""
    headers: Mapping[str, bytes] = field(default_factory=dict)
    key: bytes | None = None
    schema: str = ""
    """The id or version of the schema that the message names."""
    delay_ms: int = 0
    """The delivery delay that the client asks for."""
    compressed: bool = False
    """Whether the client compresses it; values compress well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscribe(Step):
    """Attach a consumer, to a shared subscription or as a member of a group."""

    subscription: str = "one"


@dataclass(frozen=True, slots=True, kw_only=True)
class Receive(Step):
    """Receive the next messages, each of them once, in the order in which they were published."""

    count: int = 1
    older_s: float = 0.0
    """How long ago each of them was published at least, in seconds."""
    headers: Mapping[str, bytes] | None = None
    """The headers of each, with which they arrive; None if they are of no account."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiveNothing(Step):
    """No message comes for a while."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledge(Step):
    """Acknowledge what was received first."""

    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopic(Step):
    """Create the scenario's topic, which is not there before, by a request for that."""

    partitions: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave(Step):
    """End the client, and wait until its place is free."""
