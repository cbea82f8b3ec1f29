"""Maps the methods of gRPC services to operations, and locates the fields that policies need."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Literal, TypeAlias

Path: TypeAlias = tuple[int, ...]
"""Field numbers of a protobuf message, outermost first: `(2, 1)` is field 1 of the message in field 2."""
SizeOf: TypeAlias = Literal["payload", "message"]
"""What counts as the size of a message: the length of its payload, or of the whole encoded message."""
UnknownRule: TypeAlias = Literal["refuse", "pass"]
"""What happens to a call of a method that is not in the map."""


class Role(Enum):
    """What a method does, from the point of view of policies."""

    ATTACH_PRODUCER = "attach_producer"
    SUBSCRIBE = "subscribe"
    """Attaches a consumer, and creates its subscription if there is none."""
    PUBLISH = "publish"
    DISPATCH = "dispatch"
    """Streams messages to a consumer."""
    ACKNOWLEDGE = "acknowledge"
    """Ends the delivery of a message to its consumer, for good or until it is delivered again."""
    KEEP_ALIVE = "keep_alive"
    """Confirms that a producer or consumer is still connected."""
    DETACH = "detach"
    """Detaches a producer or consumer."""
    LOOKUP = "lookup"
    """Returns which broker serves a topic, which may be a new one. No policy applies to it."""
    PASS = "pass"  # noqa: S105 - no password
    """Is known, but no policy applies to it: it is forwarded unread."""


@dataclass(frozen=True, slots=True)
class Method:
    """One method. Paths are in its request unless stated otherwise; `()` for what it lacks."""

    role: Role
    topic: Path = ()
    producer: Path = ()
    """The producer's name where it attaches, otherwise the id that it got then."""
    name: Path = ()
    """For PUBLISH by an id: the producer's name, which identifies it where the id is unknown."""
    subscription: Path = ()
    consumer: Path = ()
    """The consumer's name where it subscribes, otherwise the id that it got then."""
    payload: Path = ()
    """The message's payload: in the request, for DISPATCH in each response."""
    position: Path = ()
    """Identifies a message within its subscription: in the request, for DISPATCH in each response."""
    published: Path = ()
    """When a message was published, in ms since 1970; for DISPATCH in each response."""
    reliable: Path = ()
    """Nonzero if no message of the topic may be lost; where a producer attaches."""
    attachment: Path = ()
    """The id of a producer or consumer: in the response where it attaches, else in the request."""
    batch: Path = ()
    """For PUBLISH: the repeated field (one number) with the messages; `payload`, `headers`, `key` and
    `schema` start with it."""
    by_connection: bool = False
    """For PUBLISH: whether each connection is a producer of the topics that it publishes to, without a call
    to attach."""
    size_of: SizeOf = "payload"
    id_bits: Literal[32, 64] = 64
    """How wide ids are that are numbers; of a larger one servers take the lowest bits, so 2**32 + 7 is 7."""
    message_topic: Path = ()
    """For DISPATCH by an id, in each response: the topic. With `message_subscription` it identifies consumers
    whose id is unknown, such as those that attached before the gateway started."""
    message_subscription: Path = ()
    """For DISPATCH by an id, in each response: the subscription."""
    headers: Path = ()
    """For PUBLISH: a map of texts, or of bytes by texts, that policies read and change as headers."""
    key: Path = ()
    """For PUBLISH: the message's key, a string or bytes."""
    schema: Path = ()
    """For PUBLISH: which schema the payload is written by, a number or a string; 0 for none."""

    @property
    def is_policed(self) -> bool:
        """Whether policies can apply to it."""
        return self.role is not Role.PASS and self.role is not Role.LOOKUP


@dataclass(frozen=True, slots=True)
class MethodMap:
    """The methods of one system.

    An interceptor lets other methods pass and counts them. A gateway refuses them, unless configured to let
    them pass.
    """

    system: str
    methods: Mapping[str, Method] = field(default_factory=dict)
    """By full name, as gRPC writes it: `/package.Service/Method`."""
    route_header: str = ""
    """Metadata key by which a client names the broker behind a proxy; empty if the system has none."""

    def sized_by(self, size_of: SizeOf) -> "MethodMap":
        """The same map with another definition of message sizes."""
        methods = {name: replace(method, size_of=size_of) for name, method in self.methods.items()}
        return replace(self, methods=methods)
