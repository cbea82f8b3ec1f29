"""Delivery to the consumers of one connection, and the handlers that it needs.

Where no policy applies to delivery, messages, permits and acknowledgements pass unread: their handlers are
taken out of both streams, and put back when policies change or a consumer attaches that needs them.
"""

from collections.abc import Callable, Iterator
from functools import partial

from sluicegate.sessions.work import TURN, Running, Task, Turn, Work
from sluicegate_pulsar.codec import pulsar_pb2 as pb
from sluicegate_pulsar.codec.errors import ProtocolError
from sluicegate_pulsar.codec.frames import parse_command
from sluicegate_pulsar.codec.message_frames import consumer_of
from sluicegate_pulsar.codec.own_frames import close_consumer
from sluicegate_pulsar.events import PulsarEvent
from sluicegate_pulsar.session.consumers.consumer import Consumer
from sluicegate_pulsar.session.consumers.withheld import OverfullError
from sluicegate_pulsar.session.requests.connection import Connection
from sluicegate_pulsar.session.requests.handling import PASS, TAKEN, Handled, Handler
from sluicegate_pulsar.session.shared.shared import Shared

_TYPES = pb.BaseCommand.Type
_ENDED_PER_SLICE = 100
"""Consumers that are detached in one slice once their connection is gone, some 10 us each."""
_COMPILED_PER_SLICE = 10
"""Gates that are compiled in one slice after a change of the policies, 200 us each."""
_MAX_PERMITS = 2**31 - 1
"""Brokers count them in 32 bits, signed."""
_MAX_SIZES = 1_000


class Delivering:
    """Frames of both directions for the consumers of one connection."""

    __slots__ = (
        "_closing",
        "_connection",
        "_entry_bytes",
        "_following",
        "_live_handlers",
        "_shared",
        "consumers",
    )

    def __init__(self, shared: Shared, connection: Connection) -> None:
        self._shared = shared
        self._connection = connection
        self.consumers: dict[int, Consumer] = {}
        """By consumer id, from when the broker is asked for them until they are gone."""
        self._closing: dict[int, int] = {}
        """Consumer ids that the broker was asked to close, and how often: what it sends for them is late."""
        self._entry_bytes: dict[str, int] = {}
        """Sizes of entries in topics whose messages once exceeded the room."""
        self._following: Task[None] = Task(connection.wait, self._followed, 0)
        """Applies changed policies."""
        self._live_handlers: tuple[dict[int, Handler], dict[int, Handler]] = ({}, {})

    def begin(self, client: dict[int, Handler], broker: dict[int, Handler]) -> None:
        """The connection is open.

        :param client: handlers of the client's stream; those needed at times are put in and taken out.
        :param broker: handlers of the broker's stream.
        """
        self._live_handlers = (client, broker)

    def entry_bytes(self, topic: str) -> int:
        """Size to expect of a topic's entries; 0 if nothing is known."""
        return self._entry_bytes.get(topic, 0)

    # -- which frames are read --------------------------------------------------------------------------

    def policies_changed(self, now_ns: int) -> None:
        """Apply the current policies, those of thousands of topics in slices."""
        self._following.close(now_ns)  # what an earlier change has begun
        self._following = Task(self._connection.wait, self._followed, now_ns)
        if not isinstance(self._following.begin(self._follow(self._following)), Running):
            self._choose_handlers()

    def _follow(self, turn: Turn) -> Work[None]:
        """Apply the policies to all consumers; the client's later frames wait meanwhile."""
        gates = self._shared.gates
        most = gates.compiled + _COMPILED_PER_SLICE
        for consumer in list(self.consumers.values()):
            # It may have been closed, and its id taken again, while other clients had their turn.
            if self.consumers.get(consumer.subscriber.id) is consumer:
                consumer.policies_changed(turn.now_ns)
            if gates.compiled >= most:
                self._choose_handlers()
                yield TURN
                most = gates.compiled + _COMPILED_PER_SLICE

    def _followed(self, result: None, now_ns: int) -> None:
        self._choose_handlers()

    def _choose_handlers(self) -> None:
        """Install the handlers that some consumer needs; frames of others then pass at little cost."""
        client, broker = self._live_handlers
        consumers = self.consumers.values()
        watched = any(consumer.watch.messages for consumer in consumers)
        _choose(
            client,
            watched,
            {
                _TYPES.FLOW: self._flow,
                _TYPES.REDELIVER_UNACKNOWLEDGED_MESSAGES: self._redeliver,
                _TYPES.SEEK: self._seek,
            },
        )
        _choose(
            client, any(consumer.watch.acknowledgements for consumer in consumers), {_TYPES.ACK: self._ack}
        )
        _choose(
            broker,
            watched,
            {
                _TYPES.ACTIVE_CONSUMER_CHANGE: self._active_changed,
                _TYPES.REACHED_END_OF_TOPIC: self._reached_end,
            },
        )
        _choose(broker, watched or bool(self._closing), {_TYPES.MESSAGE: self._message})

    # -- attaching and detaching ---------------------------------------------------------------------------

    def add(self, consumer: Consumer) -> None:
        """The broker is asked for a consumer."""
        self.consumers[consumer.subscriber.id] = consumer
        if consumer.watch:
            self._choose_handlers()

    def remove(self, consumer: Consumer, now_ns: int) -> None:
        """Remove a closed consumer; idempotent."""
        if self.consumers.get(consumer.subscriber.id) is consumer:
            del self.consumers[consumer.subscriber.id]
            consumer.gone(now_ns)
            if consumer.watch:
                self._choose_handlers()

    def expect_closed(self, consumer_id: int, request_id: int, *, passes: bool) -> None:
        """Discard what the broker sends for a consumer until it says that the consumer is closed.

        :param request_id: of the request to close it.
        :param passes: whether the broker's answer is for the client.
        """

        def answered(response: pb.BaseCommand, now_ns: int) -> Handled:
            left = self._closing.pop(consumer_id, 1) - 1
            if left:
                self._closing[consumer_id] = left
            self._choose_handlers()
            return PASS if passes else TAKEN

        self._connection.requests.expect(request_id, answered)
        # Counted, as a client may reopen the id and overflow again before the broker has answered.
        self._closing[consumer_id] = self._closing.get(consumer_id, 0) + 1

    def _overfull(self, consumer: Consumer, now_ns: int) -> None:
        """A consumer's buffer overflows: it has to reopen, with fewer permits."""
        self._shared.count(PulsarEvent.CONSUMER_OVERFULL)
        if len(self._entry_bytes) >= _MAX_SIZES:
            self._entry_bytes.pop(next(iter(self._entry_bytes)))
        self._entry_bytes[consumer.subscriber.topic] = consumer.permits.entry_bytes
        self.shut(consumer, now_ns)
        self._connection.send_down(close_consumer(consumer.subscriber.id))

    def shut(self, consumer: Consumer, now_ns: int) -> None:
        """Close a consumer here and at the broker; idempotent.

        Clients choose the ids of responses: by using one twice they can make the broker's answer to
        one request look like that to another. A consumer that the broker has after all would pass no policy.
        """
        if self.consumers.get(consumer.subscriber.id) is not consumer:
            return
        request_id = next(self._connection.requests.own_ids)
        self.expect_closed(consumer.subscriber.id, request_id, passes=False)
        self.remove(consumer, now_ns)
        self._choose_handlers()
        self._connection.send_up(close_consumer(consumer.subscriber.id, request_id))

    # -- what the broker sends ------------------------------------------------------------------------

    def _message(self, data: bytes, start: int, stop: int, now_ns: int) -> Handled:
        consumer_id = consumer_of(data, start, stop)
        if consumer_id in self._closing:
            return TAKEN
        consumer = self.consumers.get(consumer_id)
        if consumer is None or not consumer.watch.messages:
            return PASS
        try:
            return consumer.message(data, start, stop, now_ns)
        except OverfullError:
            self._overfull(consumer, now_ns)
            return TAKEN

    def _active_changed(self, data: bytes, start: int, stop: int, now_ns: int) -> Handled:
        """Another consumer takes over: it gets all that is not acknowledged."""
        change = parse_command(data, start, stop).active_consumer_change
        consumer = self.consumers.get(change.consumer_id)
        if consumer is not None and consumer.watch.messages and not change.is_active:
            consumer.begin_anew(now_ns)
        return PASS

    def _reached_end(self, data: bytes, start: int, stop: int, now_ns: int) -> Handled:
        consumer = self.consumers.get(parse_command(data, start, stop).reached_end_of_topic.consumer_id)
        if consumer is None:
            return PASS
        try:
            return consumer.in_order(data, start, stop)
        except OverfullError:
            self._overfull(consumer, now_ns)
            return TAKEN

    # -- what the client sends --------------------------------------------------------------------------

    def _flow(self, data: bytes, start: int, stop: int, now_ns: int) -> Handled:
        flow = parse_command(data, start, stop).flow
        permits = flow.message_permits
        if not 0 < permits <= _MAX_PERMITS:
            raise ProtocolError(f"FLOW of {permits} permits, expected 1 to {_MAX_PERMITS}")
        consumer = self.consumers.get(flow.consumer_id)
        if consumer is None or not consumer.watch.messages:
            return PASS
        return consumer.granted(permits)

    def _ack(self, data: bytes, start: int, stop: int, now_ns: int) -> Handled:
        ack = parse_command(data, start, stop).ack
        consumer = self.consumers.get(ack.consumer_id)
        if consumer is None or not consumer.watch.acknowledgements:
            return PASS
        return self._pass_after(partial(consumer.acknowledging, ack), data, start, stop, now_ns)

    def _pass_after(
        self, work: Callable[[Turn], Work[None]], data: bytes, start: int, stop: int, now_ns: int
    ) -> Handled:
        """Let a frame pass after work that may take long; PASS if it passes unchanged."""
        frame = b""

        def done(result: None, now_ns: int) -> None:
            self._connection.memory.give(len(frame))
            self._connection.send_up(frame)

        task = Task(self._connection.wait, done, now_ns)
        if not isinstance(task.begin(work(task)), Running):
            return PASS
        frame = data[start:stop]
        self._connection.memory.keep(len(frame))
        return TAKEN

    def _redeliver(self, data: bytes, start: int, stop: int, now_ns: int) -> Handled:
        command = parse_command(data, start, stop).redeliver_unacknowledged_messages
        consumer = self.consumers.get(command.consumer_id)
        if consumer is None or not consumer.watch.messages:
            return PASS
        if command.message_ids and not consumer.subscriber.one_by_one:
            work = partial(consumer.redelivering, command.message_ids)
            return self._pass_after(work, data, start, stop, now_ns)
        consumer.begin_anew(now_ns)
        return PASS

    def _seek(self, data: bytes, start: int, stop: int, now_ns: int) -> Handled:
        """After a successful seek clients drop what they have; most brokers close the consumer as well."""
        seek = parse_command(data, start, stop).seek
        consumer = self.consumers.get(seek.consumer_id)
        if consumer is not None and consumer.watch.messages:

            def answered(response: pb.BaseCommand, now_ns: int) -> Handled:
                if response.type == _TYPES.SUCCESS and self.consumers.get(seek.consumer_id) is consumer:
                    consumer.begin_anew(now_ns)
                return PASS

            self._connection.requests.expect(seek.request_id, answered)
        return PASS

    def parting(self, now_ns: int) -> Iterator[None]:
        """The connection is closed: detach all its consumers, in slices."""
        for count, consumer_id in enumerate(tuple(self.consumers), 1):
            self.consumers.pop(consumer_id).gone(now_ns)
            if count % _ENDED_PER_SLICE == 0:
                yield


def _choose(handlers: dict[int, Handler], wanted: bool, some: dict[int, Handler]) -> None:
    """Add or remove handlers."""
    for kind, handler in some.items():
        if wanted:
            handlers[kind] = handler
        else:
            handlers.pop(kind, None)
