"""One producer of one connection: its messages and their receipts, and what waits for its rate."""

import sys
from collections import deque
from typing import NamedTuple

from sluicegate.engine.gate import Gate
from sluicegate.model import Operation
from sluicegate_pulsar.session.producer_state.assembly import Chunking
from sluicegate_pulsar.session.producer_state.lifecycle import Lifecycle, State
from sluicegate_pulsar.session.producer_state.rewritten import Rewritten

_PLAIN = (State.OPEN, State.ATTACHING)


class Queued(NamedTuple):
    """A frame that waits behind others of its producer."""

    frame: bytes
    received_ms: int
    """When the gateway received it first, ms of the wall clock."""
    is_close: bool = False
    """True for the client's CLOSE_PRODUCER, which must not overtake messages."""


class Producer:
    """One producer.

    :param id: as the client numbers it on this connection.
    :param operation: its one operation, reused for each SEND.
    :param gate: of its topic.
    """

    __slots__ = (
        "answered",
        "chunking",
        "gate",
        "id",
        "is_plain",
        "lifecycle",
        "operation",
        "queue",
        "refusals",
        "rewritten",
        "sent",
        "size_limit",
    )

    def __init__(self, id: int, operation: Operation, gate: Gate) -> None:  # noqa: A002
        self.id = id
        self.operation = operation
        self.lifecycle = Lifecycle()
        self.sent = 0
        """Messages forwarded so far; `Producing` counts most of them itself, as a call takes too long."""
        self.answered = 0
        """How many of them the broker has answered; counted there too."""
        self.refusals: deque[tuple[int, bytes]] = deque()
        """SEND_ERRORs of the gateway that are not due yet, each with the number of answers before it."""
        self.rewritten = Rewritten()
        self.queue: deque[Queued] = deque()
        """What waits, in order; the operation is that of the first."""
        self.chunking = Chunking()
        self.use(gate)

    @property
    def topic(self) -> str:
        """Full name."""
        return self.operation.topic

    @property
    def name(self) -> str:
        """The name at the broker; empty until the broker has returned it."""
        kind, _, name = self.operation.producer.partition(" ")
        return name if kind == "name" else ""

    # -- messages -------------------------------------------------------------------------------------

    def pop_refused(self) -> bytes:
        """The client's answer to the next message, if the broker has refused it; else empty."""
        refused = self.rewritten.pop_refused(self.answered + 1)
        self.answered += bool(refused)
        return refused

    @property
    def is_answered(self) -> bool:
        """Whether the broker has answered all that was forwarded."""
        return self.answered >= self.sent

    # -- whether they are read ------------------------------------------------------------------------

    def use(self, gate: Gate) -> None:
        """Use a newly compiled gate."""
        self.gate = gate
        policies = gate.policies_for(self.operation.principal, self.operation.client)
        self.size_limit = int(policies.number("max_message_size")) or sys.maxsize
        self.settle()

    def settle(self) -> None:
        """Determine whether the next message can be decided by its command alone."""
        self.is_plain = not (
            self.gate.delay is not None
            or self.gate.max_delay_ms > 0
            or self.gate.reads
            or self.queue
            or self.chunking.is_under_way
            or self.lifecycle.state not in _PLAIN
        )
