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
from functools import partial

from sluicegate.sessions.work import Turn, Until, Work
from sluicegate_pulsar.codec import pulsar_pb2 as pb
from sluicegate_pulsar.codec.errors import ProtocolError
from sluicegate_pulsar.codec.frames import command_frame
from sluicegate_pulsar.codec.own_frames import close_producer
from sluicegate_pulsar.events import PulsarEvent
from sluicegate_pulsar.names import topic_name
from sluicegate_pulsar.session.producer_state.lifecycle import Event, State
from sluicegate_pulsar.session.producer_state.producer import Producer
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
        if producer.lifecycle.happens(Event.OVERFLOWS):
            producer.settle()
            self._shared.count(PulsarEvent.PUBLISH_QUEUE_FULL)

    @staticmethod
    def has_waited(producer: Producer, now_ns: int) -> bool:
        """Whether the queue of an overflowing producer has waited long enough."""
        if producer.lifecycle.state is not State.OVERFLOWING:
            return False
        # Buffered chunks of an incomplete message would be sent and counted once more:
        # a message whose rate takes longer than this would never be stored.
        began_ns = producer.lifecycle.overflowed_ns(now_ns)
        return producer.chunking.assembly is None and now_ns - began_ns >= _LONGEST_NS

    def close_if_done(self, producer: Producer, now_ns: int) -> None:
        """Have an overflowing producer reopened, if its queue is empty and it is not about to be."""
        lifecycle = producer.lifecycle
        if lifecycle.state is not State.OVERFLOWING or lifecycle.waits or producer.queue:
            return

        def done(is_given_up: bool, now_ns: int) -> None:
            if is_given_up:
                self._forsake(producer, now_ns)

        lifecycle.run(self._connection.wait, partial(self._close, producer), done, now_ns)

    # -- closing --------------------------------------------------------------------------------------

    def _close(self, producer: Producer, turn: Turn) -> Work[bool]:
        """Have a producer reopened.

        :return: True if its client has given it up; False if receipts have to come first.
        """
        lifecycle = producer.lifecycle
        earliest_ns = lifecycle.overflowed_ns(turn.now_ns) + _SHORTEST_NS
        if turn.now_ns < earliest_ns:
            yield Until(earliest_ns)
        while not lifecycle.opened:  # its first PRODUCER has no answer yet
            yield Until(turn.now_ns + _SHORTEST_NS)
        if not self._on_close(producer, turn.now_ns):
            return False  # each receipt has it looked at again
        lifecycle.happens(Event.TOLD_TO_REOPEN)
        self._closed[producer.id] = producer
        try:
            self._shared.count(PulsarEvent.PUBLISH_PRODUCER_CLOSED)
            self._connection.send_down(close_producer(producer.id))
            yield Until(turn.now_ns + _PATIENCE_NS)
        finally:
            del self._closed[producer.id]
        return True

    def _forsake(self, producer: Producer, now_ns: int) -> None:
        """The client does not reopen a producer: close it at the broker too."""
        self._producers.detach(producer, now_ns)
        self._producers.close_at_broker(producer.id)
        self._on_abandoned(producer.id)

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
            self._open(producer, request.request_id, now_ns)
            return True
        for other in list(self._closed.values()):
            # The client has replaced it by another producer, which the broker would take for a second one.
            if other is producer or (name and (other.topic, other.name) == (topic, name)):
                self._forsake(other, now_ns)
        return False

    def _open(self, producer: Producer, request_id: int, now_ns: int) -> None:
        producer.lifecycle.stop(now_ns)
        producer.lifecycle.happens(Event.REOPENED)
        producer.settle()
        command = pb.BaseCommand.FromString(producer.lifecycle.opened)
        command.producer_success.request_id = request_id
        self._connection.send_down(command_frame(command))
