"""What a client requests from a broker, in terms that apply to every broker."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from sluicegate.model.message import Message


class OperationKind(IntEnum):
    """Kinds of operations.

    The order is part of the decision log's schema: append, never reorder.
    """

    CONNECT = 0
    ATTACH_PRODUCER = 1
    CREATE_SUBSCRIPTION = 2
    ATTACH_CONSUMER = 3
    PUBLISH = 4
    DISPATCH = 5
    ACKNOWLEDGE = 6
    DETACH = 7
    OWNER_CHANGED = 8
    """Another broker serves the topic now. Only recorded, no policy applies; `client` names both brokers."""
    CREATE_TOPIC = 9
    """A topic is created, by a request for that or by its first use."""
    CREATE_PARTITIONS = 10
    """A topic gets more partitions."""


@dataclass(slots=True)
class Operation:
    """One request of one client on one topic.

    Not frozen on purpose: a session keeps one operation per attachment and sets the three sizes
    before each publish, which is four times cheaper than a new one for every message.
    To keep an operation beyond the call, copy what is needed.
    """

    kind: OperationKind
    topic: str
    """Full topic name as the broker knows it."""
    principal: str = "ANONYMOUS"
    """Authenticated name; set once the broker has accepted it."""
    client: str = ""
    """Identifies the client in logs: client id and peer address."""
    producer: str = ""
    """Key of the producer attachment, unique on the gate; empty if the operation has none."""
    subscription: str = ""
    """Subscription or consumer group; empty if the operation has none."""
    consumer: str = ""
    """Key of the consumer attachment, unique on the gate; empty if the operation has none."""
    messages: int = 0
    """Number of messages carried."""
    bytes: int = 0
    """Bytes of payload carried, as they are on the wire."""
    largest: int = 0
    """Bytes of the largest single message; compressed ones that were not inspected count together."""
    reliable: bool = True
    """False for acks=0 publishing and non-reliable dispatch, the only traffic that may be dropped."""
    ahead_ms: int = 0
    """How far in the future the latest timestamp is; set only where delivery is delayed."""
    delay_ms: int = 0
    """The delivery delay that the producer requests; set only where that is limited."""
    contents: Sequence[Message] = ()
    """The messages themselves; set only where the gate `reads` a part of them."""
    unreadable: str = ""
    """Why messages could not be read; set only where a policy inspects or reads them. With `contents`, it is
    their values alone that could not."""
    partitions: int = 0
    """How many partitions the topic will have; set only where it is created or gets more, 0 if not known."""
    waiter: object | None = None
    """Entry in a limiter's wait queue while the operation is held; set and cleared by the engine."""
    held_ns: int = 0
    """When the operation was first held, monotonic; 0 if it is not held; set and cleared by the engine."""
    also: tuple[str, ...] = ()
    """Further subscriptions that may have caused a dispatch: the limits of all apply, and all are charged."""
    roams: bool = False
    """Whether the key of what it attaches names that at every gateway, as the broker gave it or ensures that
    it is unique. Other keys tell producers and consumers apart at one gateway only."""
    totals: Any = field(default=None, repr=False, compare=False)
    """Running totals of the client, set by the engine when it first counts the operation. Untyped, as a check
    of the type would cost as much as the counting."""
