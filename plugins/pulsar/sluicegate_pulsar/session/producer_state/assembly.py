"""Buffered messages of one producer while a chunked message is incomplete (see `assembling`)."""

from collections import deque
from typing import NamedTuple

from sluicegate.sessions.timers import Timer
from sluicegate_pulsar.codec.metadata import MetadataHead
from sluicegate_pulsar.codec.pulsar_pb2 import ServerError
from sluicegate_pulsar.codec.sends import SendHead


class Refusal(NamedTuple):
    """Why a buffered message is not forwarded."""

    code: ServerError
    text: str
    completes: bool = True
    """False for a chunk that is not the last of its message (see `Publishing.refuse`)."""


class Kept(NamedTuple):
    """One buffered SEND."""

    frame: bytes
    head: SendHead
    metadata: MetadataHead | None
    received_ms: int
    """When the gateway received it first, ms of the wall clock."""
    refusal: Refusal | None = None
    """The answer to it, where it is refused; then it has no frame."""

    @property
    def chunk(self) -> MetadataHead | None:
        """Its metadata, if it is a chunk that may proceed."""
        return self.metadata if self.metadata is not None and self.metadata.is_chunk else None


class Stall(NamedTuple):
    """How far an incomplete message has come that its client sends again, as its producer is reopened."""

    key: str
    """As `chunks.key_of`."""
    chunks: int
    """The most chunks that were buffered when the producer was closed."""
    since_ns: int
    """When they were so many first."""


class Assembly:
    """Buffered SENDs of one producer, in order; exists while a chunked message is incomplete."""

    __slots__ = ("incomplete", "items", "nbytes", "timer")

    def __init__(self) -> None:
        self.items: deque[Kept] = deque()
        self.incomplete: set[str] = set()
        """What the chunks of each such message have in common."""
        self.nbytes = 0
        self.timer: Timer | None = None
