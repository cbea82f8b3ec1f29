"""Reopens producers whose queues overflow: each is closed alone, and reopened by its client.

A client that receives CLOSE_PRODUCER reopens its producer on the same connection and resends all that has
no receipt, in order. So nothing is lost, stored twice or reordered if the gateway discards everything after
the last frame that it could queue, and closes the producer when all that it has forwarded was acknowledged:

1. *Overflow.* The producer's further messages are discarded. What waits is forwarded by its rate, for ten
   seconds at most, or until a chunked message is complete that is kept for its last chunk; then all but the
   first of it is discarded too, as the client may have given it up meanwhile (`sendTimeout`). So each turn
   has at least one message stored, and under a rate as many as it allows. A chunked message whose rest never
   comes holds up the others for `max_hold`, however often its producer is reopened, and is refused then.
2. *Closed.* The client is told. The broker is not: its producer stays, with its name, its place in
   `max_producers_per_topic`, its exclusive access and its schema, which no other client can take.
3. *Reopened.* The gateway answers the client's PRODUCER as the broker had answered the first one.

The wait for the rate comes before the close and not before PRODUCER_SUCCESS, so no client runs into its
operation time-out. Reading never stops: pings, acknowledgements and other producers are served.
"""

from collections.abc import Callable

from sluicegate_pulsar.codec import pulsar_pb2 as pb
from sluicegate_pulsar.codec.errors import ProtocolError
from sluicegate_pulsar.codec.frames import command_frame
from sluicegate_pulsar.codec.own_frames import close_producer
from sluicegate_pulsar.events import PulsarEvent
from sluicegate_pulsar.names import topic_name
from sluicegate_pulsar.session.producer_state.producer import Overflow, Producer
from sluicegate_pulsar.session.producers.producers import Producers
from sluicegate_pulsar.session.requests.connection import Connection
from sluicegate_pulsar.session.shared.shared import Shared

_SHORTEST_NS = 1_000_000_000
"""Least time from an overflow to the close: at each turn the client sends all again that is pending."""
_LONGEST_NS = 10_000_000_000
"""How long after an overflow the queue is still forwarded; well below the clients' `sendTimeout` of 30 s."""
_PATIENCE_NS = 10_000_000_000
"""After so long a client that does not reopen its producer has given it up. Clients reopen within some
hundred ms; a later one is admitted as any other."""


class Reopening:
    """The overflowing producers of one connection.

    :param shared: the front's state.
    :param connection: where they come from.
    :param producers: those of the connection.
    :param on_close: called with a producer and the time before its client is told to reopen it: the client
        resends what the gateway still buffers of it. False if receipts have to come first.
    :param on_abandoned: called with the id of a producer that its client does not open again: messages may
        arrive that were sent before the client learned of the close.
    """

    __slots__ = ("_closed", "_connection", "_on_abandoned", "_on_close", "_producers", "_shared")

    def __init__(
        self,
        shared: Shared,
        connection: Connection,
        producers: Producers,
        on_close: Callable[[Producer, int], bool],
        on_abandoned: Callable[[int], None],
    ) -> None:
        self._shared = shared
        self._connection = connection
        self._producers = producers
        self._on_close = on_close
        self._on_abandoned = on_abandoned
        self._closed: dict[int, Producer] = {}
        """Those that the client was told to reopen, by id."""

    # -- overflow -------------------------------------------------------------------------------------

    def begin(self, producer: Producer) -> None:
        """Discard what a producer sends from here on; idempotent.

        May be called from another connection's turn, so it has no time and no commands:
        queued messages have a timer, forwarded ones a receipt, and `close_if_done` follows either.
        """
        if producer.overflow is None:
            producer.overflow = Overflow()
            producer.walk = None
            producer.settle()
            self._shared.count(PulsarEvent.PUBLISH_QUEUE_FULL)

    @staticmethod
    def has_waited(producer: Producer, now_ns: int) -> bool:
        """Whether the queue of an overflowing producer has waited long enough."""
        overflow = producer.overflow
        if overflow is None or producer.is_closing:
            return False
        overflow.began_ns = overflow.began_ns or now_ns
        # Buffered chunks of an incomplete message would be sent and counted once more:
        # a message whose rate takes longer than this would never be stored.
        return producer.assembly is None and now_ns - overflow.began_ns >= _LONGEST_NS

    def close_if_done(self, producer: Producer, now_ns: int) -> None:
        """Close an overflowing producer once its queue is empty and everything forwarded is answered."""
        overflow = producer.overflow
        if (
            overflow is None
            or overflow.is_closed
            or producer.queue
            or producer.answered < producer.sent
            or producer.is_closing
        ):
            return
        overflow.began_ns = overflow.began_ns or now_ns
        earliest_ns = overflow.began_ns + _SHORTEST_NS
        if now_ns < earliest_ns:
            self._look_again(producer, overflow, earliest_ns)
        elif not producer.opened:  # its first PRODUCER has no answer yet
            self._look_again(producer, overflow, now_ns + _SHORTEST_NS)
        else:
            self._close(producer, overflow, now_ns)

    def _look_again(self, producer: Producer, overflow: Overflow, at_ns: int) -> None:
        if overflow.timer is not None:
            return

        def again(now_ns: int) -> None:
            overflow.timer = None
            if self._is_current(producer, overflow):
                self.close_if_done(producer, now_ns)

        overflow.timer = self._connection.timers.at(at_ns, again)

    def _is_current(self, producer: Producer, overflow: Overflow) -> bool:
        return self._producers.live.get(producer.id) is producer and producer.overflow is overflow

    # -- closing --------------------------------------------------------------------------------------

    def _close(self, producer: Producer, overflow: Overflow, now_ns: int) -> None:
        if not self._on_close(producer, now_ns):
            return
        overflow.is_closed = True
        self._closed[producer.id] = producer
        self._shared.count(PulsarEvent.PUBLISH_PRODUCER_CLOSED)
        self._connection.down.append(close_producer(producer.id))

        def give_up(now_ns: int) -> None:
            if self._is_current(producer, overflow):
                self._forsake(producer, now_ns)

        overflow.timer = self._connection.timers.at(now_ns + _PATIENCE_NS, give_up)

    def _forsake(self, producer: Producer, now_ns: int) -> None:
        """The client does not reopen a producer: close it at the broker too."""
        self.forget(producer)
        self._producers.detach(producer, now_ns)
        self._producers.close_at_broker(producer.id)
        self._on_abandoned(producer.id)

    def forget(self, producer: Producer) -> bool:
        """A producer is open again, or closed.

        :return: True if its client was asked to reopen it.
        """
        overflow, producer.overflow = producer.overflow, None
        if overflow is not None and overflow.timer is not None:
            overflow.timer.cancel()
        if self._closed.get(producer.id) is not producer:
            return False
        del self._closed[producer.id]
        return True

    # -- reopening ---------------------------------------------------------------------------------

    def reopen(self, request: "pb.Producer", now_ns: int) -> bool:
        """Answer a PRODUCER if it reopens a closed one.

        :return: False if it is one that the broker has to answer.
        """
        if not self._closed:
            return False
        try:
            topic, name = topic_name(request.topic).full, request.producer_name
        except ProtocolError:
            return False  # it will be refused for that
        producer = self._closed.get(request.producer_id)
        if producer is not None and producer.topic == topic and name in ("", producer.name):
            self._open(producer, request.request_id)
            return True
        for other in list(self._closed.values()):
            # The client has replaced it by another producer, which the broker would take for a second one.
            if other is producer or (name and (other.topic, other.name) == (topic, name)):
                self._forsake(other, now_ns)
        return False

    def _open(self, producer: Producer, request_id: int) -> None:
        self.forget(producer)
        producer.settle()
        command = pb.BaseCommand.FromString(producer.opened)
        command.producer_success.request_id = request_id
        self._connection.down.append(command_frame(command))
