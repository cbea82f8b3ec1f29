"""How a reference broker behaves."""

from collections.abc import Mapping
from dataclasses import dataclass, field

LABEL = "sluicegate-reference-broker"
"""What it says it is, where a broker would say its version. It is no Danube."""
MAX_MESSAGE_BYTES = 4 << 20
"""The longest message that Danube reads, encoded, in bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a reference broker behaves, with bounds on all that clients could make grow."""

    connect_urls: tuple[str, ...] = ()
    """What look-ups tell clients to dial, one for each broker; none: each broker's own address."""
    proxy: bool = False
    """Tell clients to dial the first broker (or `connect_urls`) and to name the owner in a header."""
    max_unacked: int = 1000
    """Messages on their way to the consumers of one reliable subscription. Danube's default is 10."""
    redelivery_ms: int = 100
    """After a nack that names no delay. Danube's default is 1000, and doubles."""
    queue_messages: int = 1000
    """Messages that wait for one consumer of a non-reliable topic; more are dropped. Danube keeps 4."""
    queue_bytes: int = 16 << 20
    """Bytes of payload that wait for one such consumer."""
    max_stored_bytes: int = 256 << 20
    """Bytes that the messages of all topics take."""
    max_topics: int = 10_000
    max_attachments: int = 100_000
    """Producers of the cluster, and as many subscriptions and consumers."""
    max_schemas: int = 10_000
    namespace_policies: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Policies by namespace that the admin API tells of; none is enforced."""
