"""Which method of a gRPC service is which operation, and where in its messages the policies' words stand."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Literal, TypeAlias

Path: TypeAlias = tuple[int, ...]
"""Field numbers of a protobuf message, outermost first: `(2, 1)` is field 1 of the message in field 2."""
SizeOf: TypeAlias = Literal["payload", "message"]
"""What the size of a message is: the length of its payload, or of the whole encoded message."""
UnknownRule: TypeAlias = Literal["refuse", "pass"]
"""What becomes of a call of a method that the map does not name."""


class Role(Enum):
    """What a method does, as far as policies care."""

    ATTACH_PRODUCER = "attach_producer"
    SUBSCRIBE = "subscribe"
    """Attaches a consumer, and creates its subscription if there is none."""
    PUBLISH = "publish"
    DISPATCH = "dispatch"
    """Streams messages to a consumer."""
    ACKNOWLEDGE = "acknowledge"
    """Takes a message off what its consumer has not acknowledged, for good or for now."""
    KEEP_ALIVE = "keep_alive"
    """Tells that a producer or consumer is still there."""
    DETACH = "detach"
    """Takes leave of a producer or consumer."""
    LOOKUP = "lookup"
    """Asks which broker serves a topic. No policy asks about it; its answer can name a new owner."""
    PASS = "pass"  # noqa: S105 - no password
    """Carries nothing that a policy asks about: it passes unread, and is known."""


@dataclass(frozen=True, slots=True)
class Method:
    """One method. Paths point into its request unless they say otherwise; `()` is for what it has not."""

    role: Role
    topic: Path = ()
    producer: Path = ()
    """The producer's name where it attaches, else the id that it was given then."""
    name: Path = ()
    """For PUBLISH by an id: the producer's name, by which it is known again where its id is not."""
    subscription: Path = ()
    consumer: Path = ()
    """The consumer's name where it subscribes, else the id that it was given then."""
    payload: Path = ()
    """The message's payload, whose length is its size: in the request, for DISPATCH in each response."""
    position: Path = ()
    """Identifies a message within its subscription: in the request, for DISPATCH in each response."""
    published: Path = ()
    """When a message was published, in ms since 1970; for DISPATCH in each response."""
    reliable: Path = ()
    """Not zero if the topic's messages must all arrive; where a producer attaches."""
    attachment: Path = ()
    """The id of a producer or consumer: in the response where it attaches, else in the request."""
    batch: Path = ()
    """For PUBLISH: the repeated field (one number) that holds the messages; `payload` leads through it."""
    by_connection: bool = False
    """For PUBLISH: each connection is a producer of the topics that it publishes to, where others attach by a
    call."""
    size_of: SizeOf = "payload"

    @property
    def is_policed(self) -> bool:
        """True if policies can ask about it."""
        return self.role is not Role.PASS and self.role is not Role.LOOKUP


@dataclass(frozen=True, slots=True)
class MethodMap:
    """The methods of one system.

    Those that it does not name pass an interceptor, and are counted. A gateway refuses them, unless it is
    told to let them pass.
    """

    system: str
    methods: Mapping[str, Method] = field(default_factory=dict)
    """By full name, as gRPC writes it: `/package.Service/Method`."""
    route_header: str = ""
    """Metadata key by which a client names the broker behind a proxy; empty if the system has none."""

    def sized_by(self, size_of: SizeOf) -> "MethodMap":
        """The same map with another size of messages."""
        methods = {name: replace(method, size_of=size_of) for name, method in self.methods.items()}
        return replace(self, methods=methods)
