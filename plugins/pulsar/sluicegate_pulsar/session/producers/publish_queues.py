"""Queues of one connection's producers: messages that wait for a rate, and what must not overtake them."""

from sluicegate.sessions.pieces import NoRoomError
from sluicegate_pulsar.codec.frames import parse_command
from sluicegate_pulsar.codec.sends import read_send
from sluicegate_pulsar.session.producer_state.lifecycle import Event, State
from sluicegate_pulsar.session.producer_state.producer import Producer, Queued
from sluicegate_pulsar.session.producer_state.publish_memory import FRAME_OVERHEAD
from sluicegate_pulsar.session.producers.reopening import Reopening
from sluicegate_pulsar.session.producers.transactions import Transactions, Txn
from sluicegate_pulsar.session.requests.connection import Connection
from sluicegate_pulsar.session.requests.handling import PASS, TAKEN, Handled
from sluicegate_pulsar.session.shared.shared import Shared


class PublishQueues:
    """The waiting messages of one connection's producers, and their memory.

    :param shared: the front's state.
    :param connection: the producers'.
    :param reopening: handles producers whose queues overflow.
    """

    __slots__ = ("_connection", "_memory", "_reopening", "_shared", "_txns")

    def __init__(self, shared: Shared, connection: Connection, reopening: Reopening) -> None:
        self._shared = shared
        self._connection = connection
        self._reopening = reopening
        self._memory = shared.publish_memory
        self._txns = Transactions()

    # -- messages -------------------------------------------------------------------------------------

    def append(self, producer: Producer, frame: bytes, received_ms: int, txn: Txn | None) -> bool:
        """Queue a message.

        :param frame: a copy, not the buffer that it was read into.
        :return: False if there is no room, and the producer overflows.
        """
        size = len(frame) + FRAME_OVERHEAD
        if not self._memory.take_queued(producer, size, self.shed):
            self._reopening.begin(producer)
            return False
        self._connection.memory.count(size)
        producer.queue.append(Queued(frame, received_ms))
        if txn is not None:
            self._txns.waits(txn)
        producer.settle()
        return True

    def append_close(self, producer: Producer, frame: bytes) -> None:
        """Queue the client's CLOSE_PRODUCER after the waiting messages.

        :raises NoRoomError: if too much is held already.
        """
        size = len(frame) + FRAME_OVERHEAD
        if not self._memory.take(producer, size):
            raise NoRoomError
        self._connection.memory.count(size)
        producer.lifecycle.happens(Event.IS_TO_CLOSE)
        producer.queue.append(Queued(frame, 0, is_close=True))
        producer.settle()

    def popleft(self, producer: Producer) -> bytes:
        """Take the first frame out of a queue; for a message `left` follows, once it was forwarded."""
        frame = producer.queue.popleft().frame
        self._give(producer, len(frame) + FRAME_OVERHEAD)
        return frame

    def cut(self, producer: Producer, frames: int) -> None:
        """Discard messages at the end of a queue; the client's close stays.

        :param frames: how many frames are kept.
        """
        queue, size = producer.queue, 0
        closes = []
        while len(queue) > frames:
            queued = queue.pop()
            if queued.is_close:
                closes.append(queued)
                continue
            frame = queued.frame
            size += len(frame) + FRAME_OVERHEAD
            if self._txns:
                self.left(read_send(frame, 0, len(frame)).txn)
        queue.extend(reversed(closes))
        self._give(producer, size)

    def shed(self, producer: Producer) -> bool:
        """Discard the later half of a producer's queue, as others need the memory.

        May be called from another connection's turn (see `Reopening.begin`).

        :return: False if there is nothing to discard.
        """
        if producer.lifecycle.state is State.CLOSING or len(producer.queue) < 2:
            return False
        self._reopening.begin(producer)
        self.cut(producer, len(producer.queue) // 2)
        return True

    # -- refusals -------------------------------------------------------------------------------------

    def append_refusal(self, producer: Producer, frame: bytes) -> bool:
        """Queue a SEND_ERROR until the receipts before it have arrived.

        :return: False if there is no room: the producer overflows and its queue is discarded, as its
            client has to resend this message and all after it.
        """
        size = len(frame) + FRAME_OVERHEAD
        if not self._memory.take(producer, size):
            self._reopening.begin(producer)
            self.cut(producer, 0)
            return False
        self._connection.memory.count(size)
        producer.refusals.append((producer.sent, frame))
        if not producer.queue and self._memory.is_full(producer):
            self._reopening.begin(producer)
        return True

    def popleft_refusal(self, producer: Producer) -> bytes:
        """Take the first SEND_ERROR, which is due."""
        frame = producer.refusals.popleft()[1]
        self._give(producer, len(frame) + FRAME_OVERHEAD)
        return frame

    def _give(self, producer: Producer, size: int) -> None:
        self._memory.give(producer, size)
        self._connection.memory.count(-size)

    # -- transactions -----------------------------------------------------------------------------------

    def end_txn(self, data: bytes, start: int, stop: int, now_ns: int) -> Handled:
        """Hold the end of a transaction until its waiting messages are forwarded (`Handler`).

        :return: PASS if none waits.
        :raises NoRoomError: if too much is held already.
        """
        if not self._txns:
            return PASS
        end = parse_command(data, start, stop).end_txn
        txn = (end.txnid_most_bits, end.txnid_least_bits)
        if txn not in self._txns:
            return PASS
        self._connection.memory.keep(stop - start + FRAME_OVERHEAD)
        self._txns.keep(txn, data[start:stop])
        return TAKEN

    def waits(self, txn: Txn) -> None:
        """Count one more waiting message of a transaction, here or elsewhere in the gateway."""
        self._txns.waits(txn)

    def left(self, txn: Txn | None) -> None:
        """A message no longer waits.

        :param txn: its transaction, if any.
        """
        if txn is None:
            return
        for frame in self._txns.left(txn):
            self._connection.memory.give(len(frame) + FRAME_OVERHEAD)
            self._connection.send_up(frame)
