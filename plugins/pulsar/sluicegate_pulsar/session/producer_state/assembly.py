"""Chunked messages of one producer, and what is buffered while one is incomplete (see `assembling`)."""

from collections import deque
from typing import NamedTuple

from sluicegate.sessions.work import Task
from sluicegate_pulsar.codec.metadata import MetadataHead
from sluicegate_pulsar.codec.pulsar_pb2 import ServerError
from sluicegate_pulsar.codec.sends import SendHead
from sluicegate_pulsar.session.producer_state.chunks import ChunkSizes


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
    """Buffered SENDs of one producer, in order; exists while a chunked message is incomplete.

    :param patience: waits for the next chunk.
    :param now_ns: monotonic time.
    """

    __slots__ = ("came_ns", "incomplete", "items", "nbytes", "patience")

    def __init__(self, patience: Task[None], now_ns: int) -> None:
        self.items: deque[Kept] = deque()
        self.incomplete: set[str] = set()
        """What the chunks of each such message have in common."""
        self.nbytes = 0
        """Memory of what is buffered."""
        self.patience = patience
        self.came_ns = now_ns
        """When the last chunk came."""

    def append(self, kept: Kept, size: int) -> None:
        """Buffer one more, which takes so much memory."""
        self.items.append(kept)
        self.nbytes += size

    def chunk_came(self, chunk: MetadataHead | None, now_ns: int) -> None:
        """A chunk has come, or may have: None if none is seen."""
        self.came_ns = now_ns
        if chunk is not None:
            (self.incomplete.discard if chunk.is_last_chunk else self.incomplete.add)(chunk.uuid)

    def refuse(self, uuids: set[str], refusal: Refusal) -> list[Kept]:
        """Put refusals in place of the chunks of some messages; returns those chunks."""
        refused = []
        for index, kept in enumerate(self.items):
            chunk = kept.chunk
            if chunk is not None and chunk.uuid in uuids:
                own = refusal._replace(completes=chunk.is_last_chunk)
                self.items[index] = Kept(b"", kept.head, None, 0, own)
                self.nbytes -= len(kept.frame)
                refused.append(kept)
        self.incomplete -= uuids
        return refused


class Chunking:
    """Chunked messages of one producer."""

    __slots__ = ("_stall", "assembly", "refused_id", "refused_text", "sizes")

    def __init__(self) -> None:
        self.assembly: Assembly | None = None
        """Messages that left the queue, and wait for the last chunk of a message."""
        self.sizes = ChunkSizes()
        self.refused_text = ""
        """Why a chunk was refused last."""
        self.refused_id = -1
        """Sequence id of the last message with a refused chunk, whose other chunks are useless; else -1."""
        self._stall: Stall | None = None
        """Outlives the assembly, which is dropped when the producer is closed and reopened."""

    @property
    def is_under_way(self) -> bool:
        """Whether the next message may belong to a chunked one that is buffered or was refused."""
        return self.assembly is not None or self.refused_id >= 0

    def begin(self, patience: Task[None], now_ns: int) -> Assembly:
        """Buffer from here on; parameters as for `Assembly`."""
        self.assembly = Assembly(patience, now_ns)
        return self.assembly

    def end(self, now_ns: int) -> None:
        """Buffer no longer."""
        if self.assembly is not None:
            self.assembly.patience.close(now_ns)
        self.assembly = None

    def start_over(self) -> None:
        """The client sends again what was counted."""
        self.sizes = ChunkSizes()

    def refuse(self, sequence_id: int, text: str) -> None:
        """A chunk of a message is refused."""
        self.refused_id, self.refused_text = sequence_id, text

    def is_refused(self, head: SendHead, metadata: MetadataHead | None) -> bool:
        """Whether another chunk of the same message was refused, so that it can never be complete.

        Any other message ends that: no more chunks of the refused one follow.
        """
        # A first chunk starts the message again.
        starts = metadata is not None and metadata.chunk_id == 0
        if head.is_chunk and head.sequence_id == self.refused_id and not starts:
            return True
        self.refused_id = -1
        return False

    def stalled_ns(self, key: str, chunks: int, now_ns: int) -> int:
        """Since when an incomplete message has gained no chunk, however often it is sent again.

        :param key: as `chunks.key_of`.
        :param chunks: how many are buffered now.
        """
        stall = self._stall
        if stall is None or stall.key != key or chunks > stall.chunks:
            self._stall = stall = Stall(key, chunks, now_ns)
        return stall.since_ns
