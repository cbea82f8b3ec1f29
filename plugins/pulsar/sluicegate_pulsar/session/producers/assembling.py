"""Chunked messages with a fixed delay: their chunks are forwarded together, with one delivery time.

On Shared subscriptions brokers deliver each chunk at its own time, and at once where that has passed before
they store it; consumers drop a message whose chunks come in another order. So the gateway buffers the chunks
of a message until the last has arrived. All of them then get a delivery time that lies ahead of the moment in
which the broker will have stored them. What the producer sends meanwhile stays behind them.

Clients send all chunks of a message at once, as far as they have room for pending messages. A client that
waits for receipts between chunks (Java with `blockIfQueueFull` and room for fewer messages than chunks) gets
an error after `max_hold`.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from sluicegate.sessions.work import Task, Turn, Until, Work
from sluicegate_pulsar.codec.metadata import MetadataHead
from sluicegate_pulsar.codec.sends import SendHead
from sluicegate_pulsar.events import PulsarEvent
from sluicegate_pulsar.session.producer_state.assembly import Assembly, Kept, Refusal
from sluicegate_pulsar.session.producer_state.chunks import key_of
from sluicegate_pulsar.session.producer_state.lifecycle import State
from sluicegate_pulsar.session.producer_state.producer import Producer
from sluicegate_pulsar.session.producers.transactions import Txn
from sluicegate_pulsar.session.requests.connection import Connection
from sluicegate_pulsar.session.shared.refusals import send_code
from sluicegate_pulsar.session.shared.shared import Shared

_SETTLING_MS: Final = 1_000
_SETTLING_BYTES_PER_MS: Final = 4 * 1024
"""A broker is expected to store chunks within a second, plus a second for each 4 MiB in transit to it."""
_MOST_RELEASES: Final = 1_000
_KEPT_OVERHEAD: Final = 1_024
"""Bytes that a message takes besides its frame while it is kept, or its refusal: what was read of it."""
_TOO_LARGE: Final = "A chunked message with a delivery delay has to fit into the gateway's chunk_buffer"
_REFUSED: Final = "Another chunk of the message was refused"
_NO_MEMORY: Final = "The gateway has no memory left for the chunks of a message with a delivery delay"
_TOO_SLOW: Final = "The next chunk of a message with a delivery delay has not come in time"


Finish: TypeAlias = Callable[[Producer, Kept, int, int], bool]
"""`(producer, buffered message, earliest delivery time of a chunk in ms of the wall clock, now_ns)`: forwards
or answers it. False if there is no memory for the answer: the client resends it and all after it."""


class _Released(NamedTuple):
    """Released bytes that may still be in transit to the broker."""

    producer: Producer
    sent: int
    """The producer's messages forwarded so far."""
    nbytes: int
    stored_ms: int
    """When the broker is expected to have it, ms of the wall clock."""
    is_left: bool = False
    """True once the producer is gone: no answers are counted any more."""

    def is_under_way(self, wall_ms: int) -> bool:
        """Whether the broker has not stored it yet."""
        return self.producer.answered < self.sent and not (self.is_left and wall_ms >= self.stored_ms)


class Assembling:
    """Incomplete chunked messages of one connection's producers.

    :param shared: the front's state.
    :param connection: where they come from.
    :param finish: called with each message in order, once it is released.
    :param txn_waits: called with the transaction of a message that is buffered.
    :param txn_left: called with it when the message is released.
    """

    __slots__ = ("_connection", "_finish", "_released", "_shared", "_txn_left", "_txn_waits")

    def __init__(
        self,
        shared: Shared,
        connection: Connection,
        finish: Finish,
        txn_waits: Callable[[Txn], None],
        txn_left: Callable[[Txn], None],
    ) -> None:
        self._shared = shared
        self._connection = connection
        self._finish = finish
        self._txn_waits = txn_waits
        self._txn_left = txn_left
        self._released: deque[_Released] = deque(maxlen=_MOST_RELEASES)

    def keep(self, producer: Producer, kept: Kept, now_ns: int) -> None:
        """Buffer an admitted message, and forward what it completes."""
        assembly = producer.chunking.assembly or self._begin(producer, now_ns)
        if not self._append(assembly, kept):
            self._no_room(producer, assembly, kept, now_ns)
            return
        if kept.head.txn is not None:
            self._txn_waits(kept.head.txn)
        if kept.chunk is not None:
            assembly.chunk_came(kept.chunk, now_ns)
        self._release_complete(producer, assembly, now_ns)

    def refuse(self, producer: Producer, head: SendHead, refusal: Refusal, now_ns: int) -> None:
        """Queue the answer to a refused message after the messages buffered before it.

        Earlier chunks of the same message are refused with it, as it can never be complete.

        :raises ValueError: if nothing of this producer is buffered.
        """
        assembly = producer.chunking.assembly
        if assembly is None:
            raise ValueError(f"nothing is kept of producer {producer.id}")
        if head.is_chunk:
            producer.chunking.refuse(head.sequence_id, refusal.text)
            same = (kept.chunk for kept in assembly.items if kept.head.sequence_id == head.sequence_id)
            uuids = {chunk.uuid for chunk in same if chunk is not None}
            self._give_up(producer, assembly, uuids, refusal, now_ns)
        kept = Kept(b"", head, None, 0, refusal)
        if self._append(assembly, kept):
            self._release_complete(producer, assembly, now_ns)
        else:
            self._no_room(producer, assembly, kept, now_ns)

    def end(self, producer: Producer, now_ns: int) -> None:
        """The producer ends: refuse incomplete messages, and forward the rest."""
        assembly = producer.chunking.assembly
        if assembly is not None:
            self._refuse_incomplete(producer, assembly, _refusal(self._connection, _TOO_SLOW), now_ns)
        self._leave(producer)

    def lose(self, producer: Producer, uuid: str, text: str, now_ns: int) -> None:
        """A chunk of a message is refused: refuse its other chunks too, on this connection or another.

        :param uuid: the message's, or its `key_of`.
        """
        producer.chunking.sizes.refused(uuid)
        self._shared.refused_messages.note((producer.topic, producer.name, key_of(uuid)), text, now_ns)

    def lost(self, producer: Producer, chunk: MetadataHead, now_ns: int) -> str:
        """Why another chunk of the same message was refused; empty if none was, or this one begins it."""
        key = (producer.topic, producer.name, key_of(chunk.uuid))
        if not chunk.chunk_id:
            self._shared.refused_messages.begins(key)
            return ""
        text = self._shared.refused_messages.text(key, now_ns)
        if not text and producer.chunking.sizes.is_lost(chunk):
            return producer.chunking.refused_text or _REFUSED
        return text

    def give_up_stalled(self, producer: Producer, now_ns: int) -> None:
        """The client is about to send again what is buffered: refuse what has gained no chunk for too long.

        Its time-out starts again with each reopening. Without this it would never be refused, and what is
        behind it never stored.
        """
        assembly = producer.chunking.assembly
        if assembly is None:
            return
        uuids = [kept.chunk.uuid for kept in assembly.items if kept.chunk is not None]
        key = key_of(next((uuid for uuid in uuids if uuid in assembly.incomplete), ""))
        stalled_ns = producer.chunking.stalled_ns(key, len(uuids), now_ns)
        if now_ns - stalled_ns >= self._shared.max_hold_ns:
            self._too_slow(producer, assembly, now_ns)

    def drop(self, producer: Producer, now_ns: int) -> None:
        """Forget the buffered chunks of a producer that is closed or sends them again."""
        self._leave(producer)
        assembly = producer.chunking.assembly
        if assembly is None:
            return
        producer.chunking.start_over()  # discarded chunks were counted there
        for kept in self._taken(producer, assembly, now_ns):
            self._left(kept)

    # -- how it begins and ends -------------------------------------------------------------------------

    def _append(self, assembly: Assembly, kept: Kept) -> bool:
        """Buffer one more; False if there is no room."""
        size = len(kept.frame) + _KEPT_OVERHEAD
        if assembly.nbytes + size > self._shared.config.chunk_buffer or not self._connection.memory.take(
            size
        ):
            return False
        assembly.append(kept, size)
        return True

    def _begin(self, producer: Producer, now_ns: int) -> Assembly:
        def too_slow(result: None, now_ns: int) -> None:
            self._too_slow(producer, assembly, now_ns)

        patience: Task[None] = Task(self._connection.wait, too_slow, now_ns)
        assembly = producer.chunking.begin(patience, now_ns)
        patience.begin(self._await_chunks(producer, assembly, patience))
        producer.settle()
        return assembly

    def _release_complete(self, producer: Producer, assembly: Assembly, now_ns: int) -> bool:
        """Forward everything if it is complete, with a delivery time after the last chunk is stored.

        :return: False if the client has to resend some of it, and all after it.
        """
        if assembly.incomplete:
            return True
        due_ms, nbytes = self._stored_ms(assembly.nbytes, now_ns), assembly.nbytes
        goes_on = True
        for kept in self._taken(producer, assembly, now_ns):
            goes_on = goes_on and self._finish(producer, kept, due_ms, now_ns)
            self._left(kept)
        if not goes_on:
            producer.chunking.start_over()  # resent chunks were counted there
        self._released.append(_Released(producer, producer.sent, nbytes, due_ms))
        producer.settle()
        return goes_on

    def _taken(self, producer: Producer, assembly: Assembly, now_ns: int) -> deque[Kept]:
        """Take everything that is buffered."""
        producer.chunking.end(now_ns)
        self._connection.memory.give(assembly.nbytes)
        return assembly.items

    def _leave(self, producer: Producer) -> None:
        if any(each.producer is producer for each in self._released):
            entries = (
                each._replace(is_left=True) if each.producer is producer else each for each in self._released
            )
            self._released = deque(entries, maxlen=_MOST_RELEASES)

    def _stored_ms(self, nbytes: int, now_ns: int) -> int:
        """When the broker will have stored these bytes, after those that it has not answered yet."""
        wall_ms = self._shared.wall_ms(now_ns)
        released = self._released
        while released and not released[0].is_under_way(wall_ms):
            released.popleft()
        under_way = sum(each.nbytes for each in released if each.is_under_way(wall_ms))
        return wall_ms + _SETTLING_MS + (nbytes + under_way) // _SETTLING_BYTES_PER_MS

    # -- bounds -----------------------------------------------------------------------------------------

    def _no_room(self, producer: Producer, assembly: Assembly, kept: Kept, now_ns: int) -> None:
        """Refuse incomplete messages for lack of room; an unchunked message follows them."""
        self._shared.count(PulsarEvent.CHUNK_BUFFER_FULL)
        fits = assembly.nbytes + len(kept.frame) + _KEPT_OVERHEAD <= self._shared.config.chunk_buffer
        refusal = _refusal(self._connection, _NO_MEMORY if fits else _TOO_LARGE)
        if not self._refuse_incomplete(producer, assembly, refusal, now_ns):
            return
        if kept.chunk is not None:
            self.lose(producer, kept.chunk.uuid, refusal.text, now_ns)
            own = refusal._replace(completes=kept.chunk.is_last_chunk)
            kept = Kept(b"", kept.head, None, 0, own)
        self._finish(producer, kept, 0, now_ns)

    def _await_chunks(self, producer: Producer, assembly: Assembly, turn: Turn) -> Work[None]:
        """Wait until the next chunk has not come for too long."""
        while True:
            late_ns = assembly.came_ns + self._shared.max_hold_ns
            if turn.now_ns < late_ns:
                yield Until(late_ns)
            elif (
                self._connection.reading.stops
                or producer.queue
                or producer.lifecycle.state is State.OVERFLOWING
            ):
                # The next chunk may have arrived: it waits here, or was discarded and is resent.
                assembly.chunk_came(None, turn.now_ns)
            else:
                return

    def _too_slow(self, producer: Producer, assembly: Assembly, now_ns: int) -> None:
        self._shared.count(PulsarEvent.CHUNKS_INCOMPLETE)
        self._refuse_incomplete(producer, assembly, _refusal(self._connection, _TOO_SLOW), now_ns)

    def _refuse_incomplete(
        self, producer: Producer, assembly: Assembly, refusal: Refusal, now_ns: int
    ) -> bool:
        """Refuse incomplete messages, and forward the rest; see `_release_complete`."""
        self._give_up(producer, assembly, set(assembly.incomplete), refusal, now_ns)
        return self._release_complete(producer, assembly, now_ns)

    def _give_up(
        self, producer: Producer, assembly: Assembly, uuids: set[str], refusal: Refusal, now_ns: int
    ) -> None:
        """Replace the chunks of some messages by refusals."""
        for uuid in uuids:
            self.lose(producer, uuid, refusal.text, now_ns)
        for kept in assembly.refuse(uuids, refusal):
            self._left(kept)
            self._connection.memory.give(len(kept.frame))

    def _left(self, kept: Kept) -> None:
        if kept.head.txn is not None and kept.refusal is None:
            self._txn_left(kept.head.txn)


def _refusal(connection: Connection, text: str) -> Refusal:
    return Refusal(send_code(connection.client.version), text)
