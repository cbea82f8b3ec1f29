"""Consumers, and the commands for their connections."""

from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from sluicegate_pulsar.reference.stored_entry import Entry


class Connection(Protocol):
    """The connection of a consumer: it turns commands into frames."""

    def carry_out(self, command: "Command") -> None:
        """Carry out a command of a subscription for one of its consumers."""


@dataclass(eq=False, slots=True)
class Consumer:
    """One consumer, attached to a subscription."""

    connection: Connection
    id: int
    """The id that the client gave it; unique in its connection."""
    name: str = ""
    priority: int = 0
    """The lower, the earlier served."""
    ranges: tuple[tuple[int, int], ...] = ()
    """Hash ranges, bounds included, that it wants on a Key_Shared subscription; else the broker divides."""
    epoch: int = 0
    """Counts the consumer's resets; messages that were sent before one carry a lower number."""
    permits: int = field(default=0, init=False)
    """Messages that it can take now. An entry of many messages may take it below 0."""


@dataclass(frozen=True, slots=True)
class Deliver:
    """Send an entry."""

    consumer: Consumer
    entry: Entry
    redeliveries: int
    """How often it was delivered without being acknowledged."""


@dataclass(frozen=True, slots=True)
class TellActive:
    """Tell a consumer of a Failover subscription whether it is the active one."""

    consumer: Consumer
    active: bool


@dataclass(frozen=True, slots=True)
class Disconnect:
    """Close a consumer from the broker's side; its client looks its topic up again and reconnects."""

    consumer: Consumer


Command: TypeAlias = Deliver | TellActive | Disconnect
