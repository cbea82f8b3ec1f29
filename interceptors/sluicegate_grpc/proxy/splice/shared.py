"""What all connections of one gRPC front share."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from sluicegate.broker import Services
from sluicegate.model import CountedEvent, Method, MethodMap
from sluicegate_grpc.events import GrpcEvent
from sluicegate_grpc.proxy.edits import Edits
from sluicegate_grpc.proxy.splice.request import Plans, Request
from sluicegate_grpc.proxy.splice.resuming import Aliases
from sluicegate_grpc.proxy.unknown import UnknownMethods
from sluicegate_grpc.semantics.calls import Calls
from sluicegate_grpc.semantics.plans import identity_plan, plan, response_plan
from sluicegate_grpc.semantics.status import Refusal

Address: TypeAlias = tuple[str, int]
Headers: TypeAlias = Sequence[tuple[str, str]]
"""Names (lower case) and values of a request's headers, pseudo-headers included."""
Rewrite: TypeAlias = Callable[[bytes], bytes | Refusal | None]
"""Makes another message of a response: None leaves it, a refusal ends the call instead of it."""
_MAX_ACCEPTED = 10_000


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one client connection: bytes, and events per second."""

    header_list_bytes: int = 65_536
    """Of the headers of one request, by RFC 9113 section 6.5.2 (names, values, 32 for each). Both sides are
    told so (SETTINGS_MAX_HEADER_LIST_SIZE)."""
    continuations: int = 32
    """CONTINUATION frames of one header block."""
    frame_bytes: int = 65_536
    """Payload of a frame; both sides are told so (SETTINGS_MAX_FRAME_SIZE). At least 16,384."""
    message_bytes: int = 16 * 1024 * 1024
    """Size of a message that must be complete before it can be decided, also after decompression."""
    stream_bytes: int = 8 * 1024 * 1024
    """Bytes withheld of one stream, beyond its receiver's window."""
    max_streams: int = 4_000
    """Requests that are open at once; clients are told so (SETTINGS_MAX_CONCURRENT_STREAMS)."""
    resets: int = 1_000
    """Streams that a client resets, or makes the gate reset (CVE-2023-44487, CVE-2025-8671)."""
    window_updates: int = 10_000
    """WINDOW_UPDATE frames, besides some for each read from the broker."""
    pings: int = 1_000
    settings: int = 100
    empty_frames: int = 10_000
    """DATA frames that carry nothing and end nothing, PRIORITY frames and frames of unknown types."""


@dataclass(slots=True)
class Shared:
    """The front's state as its sessions see it."""

    services: Services
    calls: Calls
    methods: MethodMap
    max_hold_ns: int
    """How long a call may be held for a rate."""
    limits: Limits = field(default_factory=Limits)
    rewrites: Mapping[str, Rewrite] = field(default_factory=dict)
    """By the path of a method: what makes another response message of the broker's."""
    looked_up: Callable[[str, bytes, int], None] = lambda topic, answer, now_ns: None
    """Called with a topic, the broker's answer to a LOOKUP of it, which is rewritten, and the time."""
    route: Callable[[str], tuple[Address, ...] | None] = lambda broker: None
    """The addresses of the broker that a request's `route_header` names; None if it is not allowed."""
    question: Callable[[str], object] | None = None
    """What to ask the front for a topic's subscriptions; it tells `Attachments.listed` before it answers."""
    principal: Callable[[Headers], str | None] = lambda headers: None
    """The principal that a request claims; it counts once the broker has accepted the same credentials."""
    counts: Counter[str] = field(default_factory=Counter)
    sessions: int = 0
    """Connections open now."""
    edits: Edits = field(default_factory=Edits)
    """What is changed in the headers of every request."""
    forbidden: frozenset[str] = frozenset()
    """Metadata keys (lower case) that only brokers may send; requests with one of them are refused."""
    unknown_methods: UnknownMethods = field(default_factory=lambda: UnknownMethods("pass"))
    """The rule for methods that the map does not name."""
    aliases: Aliases | None = None
    """Ids of producers that were recreated at the new owner of their topic; None if they are not."""
    broker: str = "the broker"
    """The broker's name in errors for clients."""
    accepted: dict[bytes, None] = field(default_factory=dict)
    """Digests of credentials with which the broker has accepted a call, the oldest first."""

    known_requests: dict[bytes, Request] = field(default_factory=dict)
    """Parsed header blocks, by their bytes."""
    _plans: dict[str, Plans] = field(default_factory=dict)

    def plans(self, path: str, method: Method) -> Plans:
        """How a method's requests and responses are read."""
        plans = self._plans.get(path)
        if plans is None:
            timeless = replace(method, published=())
            plans = self._plans[path] = Plans(
                plan(method),
                plan(method, named=True),
                response_plan(method),
                response_plan(timeless),
                response_plan(replace(timeless, position=())),
                identity_plan(method),
            )
        return plans

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
        if not self.knows(path):
            self.count(GrpcEvent.UNKNOWN_METHOD)

    def knows(self, path: str) -> bool:
        """Whether the map names a method, or its responses are rewritten."""
        return path in self.methods.methods or path in self.rewrites

    def accept(self, credentials: bytes) -> None:
        """The broker has accepted a call with these credentials."""
        self.accepted.pop(credentials, None)
        self.accepted[credentials] = None
        if len(self.accepted) > _MAX_ACCEPTED:
            del self.accepted[next(iter(self.accepted))]
