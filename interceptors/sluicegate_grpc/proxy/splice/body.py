"""The bytes of one policed request: what is withheld, and how far its messages are decided."""

from collections import deque
from dataclasses import dataclass, field
from enum import Enum, auto

from sluicegate_grpc.proxy.splice.flow import Chunk, Credit, joined
from sluicegate_grpc.proxy.splice.messages import PREFIX
from sluicegate_grpc.semantics.fields import Tail


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
class Body:
    """The withheld bytes of a request, and what is still to come of an admitted message."""

    next_step: Step
    """What follows an admitted message: `READING` if each one is decided, else `FREE`."""
    step: Step = Step.READING
    chunks: deque[Chunk] = field(default_factory=deque)
    """Undecided bytes."""
    size: int = 0
    """Their number."""
    received: int = 0
    """Bytes received while the call is read."""
    worth_reading: int = 0
    """How many bytes of a message have to be there before it is read once more."""
    left: int = 0
    """Bytes still to come of an admitted message."""
    tail: Tail | None = None
    """Checks them."""

    @property
    def owed(self) -> int | None:
        """Bytes whose credit on the stream the sender has not regained; None once any were forwarded."""
        if self.received != self.size:
            return None
        return sum(len(chunk.payload) for chunk in self.chunks if chunk.credit is not Credit.STREAM)

    def contradicts(self, length: int, *, has_ended: bool) -> bool:
        """Whether its size is not the one that the request's headers tell (RFC 9113 section 8.1.1)."""
        return self.received > length or (has_ended and self.received < length)

    def passed(self, size: int) -> None:
        """Count bytes that were forwarded."""
        if self.step is Step.PASSING:
            self.left -= size
            if not self.left:
                self.tail = None
                self.worth_reading = 0
                self.step = self.next_step

    def put_back(self, chunks: list[Chunk]) -> None:
        """Withhold again what was taken."""
        self.chunks.extendleft(reversed(chunks))
        self.size += sum(len(chunk.payload) for chunk in chunks)

    def peek_prefix(self) -> bytes:
        """The undecided bytes, or at least the prefix with the message's length."""
        first = self.chunks[0].payload
        return first if len(first) >= PREFIX else joined(self.chunks)

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
