"""What all connections of one gRPC front share."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from sluicegate.broker import Services
from sluicegate.model import CountedEvent
from sluicegate_grpc.events import GrpcEvent
from sluicegate_grpc.proxy.splice.connection_limits import Limits
from sluicegate_grpc.proxy.splice.requests import RequestRules
from sluicegate_grpc.proxy.splice.resuming import Aliases
from sluicegate_grpc.semantics.calls import Calls

Address: TypeAlias = tuple[str, int]
_MAX_ACCEPTED = 10_000


@dataclass(slots=True)
class Brokers:
    """The brokers behind a front."""

    name: str = "the broker"
    """What errors for clients call them."""
    route: Callable[[str], tuple[Address, ...] | None] = lambda broker: None
    """The addresses of the broker that a request's `route_header` names; None if it is not allowed."""
    looked_up: Callable[[str, bytes, int], None] = lambda topic, response, now_ns: None
    """Called with a topic, the broker's response to a LOOKUP of it, which is rewritten, and the time."""
    question: Callable[[str], object] | None = None
    """What to ask the front for a topic's subscriptions; it tells `Attachments.listed` before it answers."""


@dataclass(slots=True)
class Shared:
    """The front's state as its sessions see it."""

    services: Services
    calls: Calls
    rules: RequestRules
    max_hold_ns: int
    """How long a call may be held for a rate."""
    limits: Limits = field(default_factory=Limits)
    brokers: Brokers = field(default_factory=Brokers)
    counts: Counter[str] = field(default_factory=Counter)
    sessions: int = 0
    """Connections open now."""
    aliases: Aliases | None = None
    """Ids of producers that were recreated at the new owner of their topic; None if they are not."""
    accepted: dict[bytes, None] = field(default_factory=dict)
    """Digests of credentials with which the broker has accepted a call, the oldest first."""

    def resume_producers(self, aliases: Aliases) -> None:
        """Have producers recreated, on behalf of their clients, at the new owner of their topic."""
        self.aliases = aliases
        self.rules.keep_authorization()

    def session_opened(self) -> None:
        """A connection begins."""
        self.sessions += 1

    def session_closed(self) -> None:
        """A connection has ended."""
        self.sessions -= 1

    def count(self, event: CountedEvent) -> None:
        """Count an event."""
        self.counts[str(event)] += 1

    def counters(self) -> Mapping[str, int]:
        """Event counters by name."""
        return dict(self.counts)

    def unknown(self, path: str) -> None:
        """Count a call of an unknown method."""
        if not self.rules.knows(path):
            self.count(GrpcEvent.UNKNOWN_METHOD)

    def accept(self, credentials: bytes) -> None:
        """The broker has accepted a call with these credentials."""
        self.accepted.pop(credentials, None)  # so that those in use are not the oldest
        self.accepted[credentials] = None
        if len(self.accepted) > _MAX_ACCEPTED:
            del self.accepted[next(iter(self.accepted))]
