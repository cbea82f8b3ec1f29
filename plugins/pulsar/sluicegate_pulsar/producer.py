"""One producer of one connection: what it has sent, what it was answered, what waits for its rate."""

import sys
from collections import deque
from typing import NamedTuple

from sluicegate.engine.gate import Gate
from sluicegate.engine.timers import Timer
from sluicegate.model import Operation


class Queued(NamedTuple):
    """A frame that waits behind others of its producer."""

    frame: bytes
    received_ms: int
    """When the gate saw it first, ms of the wall clock."""
    is_close: bool
    """True for the client's CLOSE_PRODUCER, which must not overtake messages."""


class Producer:
    """One producer.

    :param id: as the client numbers it on this connection.
    :param topic: full name.
    :param operation: its one operation, reused for each SEND.
    """

    __slots__ = (
        "answered",
        "gate",
        "id",
        "is_closing",
        "is_full",
        "is_plain",
        "operation",
        "queue",
        "queued_bytes",
        "reads_metadata",
        "refusals",
        "refused_chunk",
        "sent",
        "size_limit",
        "timer",
        "topic",
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
        """SEND_ERRORs of the gate that are not due yet, each with the number of answers that go first."""
        self.queue: deque[Queued] = deque()
        """What waits, in order; the operation is that of the first."""
        self.queued_bytes = 0
        self.is_full = False
        """True while its connection is not read because too much of it waits."""
        self.is_closing = False
        """True once the client closes it, though that waits behind messages."""
        self.refused_chunk = -1
        """Sequence id of the last message of which a piece was refused; the others are worth nothing."""
        self.timer: Timer | None = None
        self.use(gate)

    def use(self, gate: Gate) -> None:
        """Take over what a newly compiled gate says."""
        self.gate = gate
        self.size_limit = int(gate.policies.number("max_message_size")) or sys.maxsize
        self.reads_metadata = gate.delay is not None or gate.max_delay_ms > 0
        self.settle()

    def settle(self) -> None:
        """See whether the next message can be decided by what its command says, without further ado."""
        self.is_plain = not (self.reads_metadata or self.queue or self.is_closing or self.refused_chunk >= 0)
