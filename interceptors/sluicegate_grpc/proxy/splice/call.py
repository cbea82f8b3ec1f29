"""One policed request: its withheld bytes, and what it waits for."""

from collections import deque
from enum import Enum, auto

from sluicegate.engine.timers import Timer
from sluicegate.model import Decision, Operation
from sluicegate.sessions.admission import Hold
from sluicegate_grpc.proxy.splice.flow import Chunk, Outlet
from sluicegate_grpc.proxy.splice.messages import PREFIX
from sluicegate_grpc.proxy.splice.requests import Request
from sluicegate_grpc.semantics.calls import Attaching, Caller, Id, Stream
from sluicegate_grpc.semantics.fields import Tail

_SMALL = 1024
"""Bytes of a chunk to which the next one is added."""


class Step(Enum):
    """The progress of a call."""

    READING = auto()
    """A message begins, or has come in part."""
    WAITING = auto()
    """A message waits for its decision."""
    PASSING = auto()
    """The rest of a message goes on that was let go."""
    FREE = auto()
    """Nothing that is still to come matters."""


class Call:
    """State of one policed HTTP/2 stream: bytes held back, the pending decision, and progress to the broker.

    It holds data only. What happens to a call is decided by the session that owns it.

    :param stream: its id.
    :param request: what its headers say.
    :param caller: who makes it.
    :param outlet: its way to the broker.
    :param place: where in the bytes read now its headers stood.
    """

    __slots__ = (
        "attaching",
        "caller",
        "chunks",
        "credit",
        "decision",
        "delivery",
        "end",
        "frames",
        "has_ended",
        "hold",
        "is_answered",
        "is_up",
        "left",
        "op",
        "outlet",
        "place",
        "producer",
        "received",
        "request",
        "size",
        "step",
        "stream",
        "tail",
        "timer",
    )

    def __init__(self, stream: int, request: Request, caller: Caller, outlet: Outlet, place: int) -> None:
        self.stream = stream
        self.request = request
        self.caller = caller
        self.outlet = outlet
        self.place = place
        self.frames = b""
        """Its header block, until it goes to the broker."""
        self.credit = 0
        """How far the client has opened its window for the answer until then."""
        self.is_up = False
        """True once the broker knows of it."""
        self.is_answered = False
        """True once the client got response headers."""
        self.has_ended = False
        """True once the client has said all."""
        self.end = b""
        """The frame by which it did, if that is none of DATA."""
        self.step = Step.READING
        self.chunks: deque[Chunk] = deque()
        """What is not decided."""
        self.size = 0
        """Bytes of it."""
        self.received = 0
        """Bytes that have come, since the call is looked at."""
        self.left = 0
        """Bytes still to come of a message that was let go."""
        self.tail: Tail | None = None
        """What watches them."""
        self.op: Operation | None = None
        """A publish that waits."""
        self.producer: Id | None = None
        """Its producer, if that counts by its own word alone."""
        self.attaching: Attaching | None = None
        """A producer or consumer that waits to attach."""
        self.delivery: Stream | None = None
        """The consumer whose messages it asks for."""
        self.decision: Decision | None = None
        self.hold: Hold | None = None
        """How long the message at hand may wait; None while it has not had to."""
        self.timer: Timer | None = None

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
