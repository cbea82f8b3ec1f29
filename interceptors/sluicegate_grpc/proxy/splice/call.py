"""One policed request: its withheld bytes, and what it waits for."""

from collections import deque
from dataclasses import dataclass, field
from enum import Enum, auto

from sluicegate.model import Operation
from sluicegate.sessions.admission import Hold
from sluicegate.sessions.timers import Timer
from sluicegate_grpc.proxy.splice.flow import Chunk, Outlet
from sluicegate_grpc.proxy.splice.messages import PREFIX
from sluicegate_grpc.proxy.splice.request import Request
from sluicegate_grpc.semantics.calls import Attaching, Caller, Id, Stream
from sluicegate_grpc.semantics.fields import Tail

_SMALL = 1024
"""Bytes of a chunk to which the next one is added."""


class Step(Enum):
    """The progress of a call."""

    READING = auto()
    """A message is incomplete."""
    WAITING = auto()
    """A message waits for its decision."""
    PASSING = auto()
    """The rest of an admitted message passes."""
    FREE = auto()
    """Later bytes are not looked at."""


@dataclass(slots=True, eq=False)
class Call:
    """State of one policed HTTP/2 stream: bytes held back, the pending decision, and progress to the broker.

    It holds data only. What happens to a call is decided by the session that owns it.
    """

    stream: int
    """Its id."""
    request: Request
    """What its headers say."""
    caller: Caller
    """Who makes it."""
    outlet: Outlet
    """Its outlet to the broker."""
    place: int
    """The offset of its headers in the bytes being read."""
    is_up: bool = False
    """True once the broker knows of it."""
    frames: bytes = b""
    """Its header block, until it goes to the broker."""
    credit: int = 0
    """The window that the client has opened for the response until then."""
    is_answered: bool = False
    """True once the client got response headers."""
    has_ended: bool = False
    """True once the client has ended the request."""
    end: bytes = b""
    """The frame that ended it, if that was not DATA."""
    step: Step = Step.READING
    chunks: deque[Chunk] = field(default_factory=deque)
    """Undecided bytes."""
    size: int = 0
    """Their number."""
    received: int = 0
    """Bytes received while the call is read."""
    left: int = 0
    """Bytes still to come of an admitted message."""
    tail: Tail | None = None
    """Checks them."""
    op: Operation | None = None
    """A publish that waits."""
    producer: Id | None = None
    """Its producer, if it counts by an unconfirmed claim."""
    attaching: Attaching | None = None
    """A producer or consumer that waits to attach."""
    delivery: Stream | None = None
    """The consumer whose messages it asks for."""
    hold: Hold | None = None
    """How long the message at hand may wait; None while it has not had to."""
    timer: Timer | None = None

    @property
    def breaks_length(self) -> bool:
        """Whether its length contradicts its headers (RFC 9113 section 8.1.1)."""
        length = self.request.length
        if length is None or self.is_up:
            return False
        return self.received > length or (self.has_ended and self.received < length)

    def passed(self, size: int) -> None:
        """Count bytes that were forwarded."""
        if self.step is Step.PASSING:
            self.left -= size
            if not self.left:
                self.tail = None
                self.step = Step.READING if self.request.is_publish else Step.FREE

    def add(self, chunk: Chunk) -> None:
        """Buffer received bytes; small pieces are joined, as a chunk has an overhead of 100 bytes."""
        last = self.chunks[-1] if self.chunks else None
        if last is not None and len(last.payload) < _SMALL and last.credit is chunk.credit:
            last.payload += chunk.payload
        else:
            self.chunks.append(chunk)
        self.size += len(chunk.payload)

    def peek_prefix(self) -> bytes:
        """The undecided bytes, or at least the prefix with the message's length."""
        first = self.chunks[0].payload
        return first if len(first) >= PREFIX else self.peek()

    def peek(self) -> bytes:
        """The undecided bytes, in one piece."""
        if len(self.chunks) == 1:
            return self.chunks[0].payload
        return b"".join(chunk.payload for chunk in self.chunks)

    def take(self, size: int) -> list[Chunk]:
        """Take bytes that are now decided."""
        taken: list[Chunk] = []
        self.size -= size
        while size:
            chunk = self.chunks.popleft()
            if len(chunk.payload) > size:
                self.chunks.appendleft(chunk.split(size))
            size -= len(chunk.payload)
            taken.append(chunk)
        return taken
