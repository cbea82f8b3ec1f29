"""One producer of one connection: sent messages, receipts, and messages that wait for its rate."""

import sys
from collections import deque
from typing import NamedTuple

from sluicegate.engine.gate import Gate
from sluicegate.model import Operation
from sluicegate.sessions.timers import Timer
from sluicegate_pulsar.codec.metadata import Measuring
from sluicegate_pulsar.session.producer_state.assembly import Assembly, Stall
from sluicegate_pulsar.session.producer_state.chunks import ChunkSizes
from sluicegate_pulsar.session.producer_state.rewritten import Rewritten


class Queued(NamedTuple):
    """A frame that waits behind others of its producer."""

    frame: bytes
    received_ms: int
    """When the gateway received it first, ms of the wall clock."""
    is_close: bool = False
    """True for the client's CLOSE_PRODUCER, which must not overtake messages."""
    largest: int = -1
    """Bytes of the largest message, if the batch was walked; else -1."""


class Overflow:
    """State of a producer whose queue has overflowed (see `reopening`)."""

    __slots__ = ("began_ns", "is_closed", "timer")

    def __init__(self) -> None:
        self.began_ns = 0
        """When its queue was first checked; 0 until then."""
        self.is_closed = False
        """True once its client was told to reopen it."""
        self.timer: Timer | None = None


class Producer:
    """One producer.

    :param id: as the client numbers it on this connection.
    :param topic: full name.
    :param operation: its one operation, reused for each SEND.
    """

    __slots__ = (
        "answered",
        "assembly",
        "chunk_sizes",
        "gate",
        "held_bytes",
        "id",
        "is_closing",
        "is_plain",
        "opened",
        "operation",
        "overflow",
        "queue",
        "reads_metadata",
        "refusals",
        "refused_chunk",
        "refused_text",
        "rewritten",
        "sent",
        "size_limit",
        "stall",
        "timer",
        "topic",
        "walk",
    )

    def __init__(self, id: int, topic: str, operation: Operation, gate: Gate) -> None:  # noqa: A002
        self.id = id
        self.topic = topic
        self.operation = operation
        self.sent = 0
        """Messages forwarded so far."""
        self.answered = 0
        """How many of them the broker has answered."""
        self.refusals: deque[tuple[int, bytes]] = deque()
        """SEND_ERRORs of the gateway that are not due yet, each with the number of answers before it."""
        self.queue: deque[Queued] = deque()
        """What waits, in order; the operation is that of the first."""
        self.held_bytes = 0
        """Memory of the queue and of the refusals."""
        self.overflow: Overflow | None = None
        """Set while its messages are discarded, because too much of it waits."""
        self.opened = b""
        """The broker's PRODUCER_SUCCESS, a serialized command; empty until it has arrived."""
        self.is_closing = False
        """True once the client closes it, though that waits behind messages."""
        self.refused_chunk = -1
        """Sequence id of the last message with a refused chunk; its other chunks are useless."""
        self.refused_text = ""
        """The refusal's text."""
        self.rewritten = Rewritten()
        self.chunk_sizes = ChunkSizes()
        self.assembly: Assembly | None = None
        """Messages that left the queue, and wait for the last chunk of a message."""
        self.stall: Stall | None = None
        """Outlives the assembly, which is dropped when the producer is closed and reopened."""
        self.timer: Timer | None = None
        self.walk: Measuring | None = None
        """Measures its last message, a batch, in slices; None again where that message is discarded."""
        self.use(gate)

    @property
    def name(self) -> str:
        """The name at the broker; empty until the broker has returned it."""
        kind, _, name = self.operation.producer.partition(" ")
        return name if kind == "name" else ""

    def use(self, gate: Gate) -> None:
        """Use a newly compiled gate."""
        self.gate = gate
        self.size_limit = int(gate.policies.number("max_message_size")) or sys.maxsize
        self.reads_metadata = gate.delay is not None or gate.max_delay_ms > 0
        self.settle()

    def settle(self) -> None:
        """Determine whether the next message can be decided by its command alone."""
        self.is_plain = not (
            self.reads_metadata
            or self.queue
            or self.is_closing
            or self.refused_chunk >= 0
            or self.overflow is not None
            or self.assembly is not None
        )
