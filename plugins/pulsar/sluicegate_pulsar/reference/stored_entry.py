"""One stored entry: what a producer sent in one SEND, such as a batch or a chunk."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a topic's log."""

    number: int
    """Its entry id: its position in the log."""
    data: bytes
    """Magic, checksum, metadata and payload, as they came."""
    messages: int
    """Messages in it, which is the number of permits that it takes."""
    batched: bool
    """True if the payload is a batch, even of one message."""
    publish_time_ms: int
    """When its producer says that it was published."""
    stored_ms: int
    """When the broker stored it."""
    first_index: int
    """Messages stored in the topic before it."""
    slot: int
    """Where its key falls in the hash range of Key_Shared."""
    deliver_at_ms: int = 0
    """When it is to be delivered; 0 for at once."""
