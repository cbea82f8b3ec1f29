"""Consuming: the consumers of one connection."""

from collections.abc import Iterator
from functools import partial

from sluicegate.broker import ToClient
from sluicegate.engine.gate import Gate
from sluicegate.model import Operation, OperationKind
from sluicegate_pulsar.codec import pulsar_pb2 as pb
from sluicegate_pulsar.codec.errors import ProtocolError
from sluicegate_pulsar.codec.frames import command_frame, parse_command
from sluicegate_pulsar.codec.own_frames import close_consumer
from sluicegate_pulsar.codec.pulsar_pb2 import ServerError
from sluicegate_pulsar.events import PulsarEvent
from sluicegate_pulsar.names import topic_name
from sluicegate_pulsar.session.consumers.consumer import Consumer
from sluicegate_pulsar.session.consumers.delivering import Delivering
from sluicegate_pulsar.session.requests.attach_requests import Request, Waiting
from sluicegate_pulsar.session.requests.connection import Connection
from sluicegate_pulsar.session.requests.handling import PASS, TAKEN, Handled, Handler
from sluicegate_pulsar.session.requests.lookup import Lookup
from sluicegate_pulsar.session.shared.refusals import consumer_refusal
from sluicegate_pulsar.session.shared.shared import Shared

_TYPES = pb.BaseCommand.Type
_MAX_CONSUMERS = 10_000
"""Of one connection; clients have one for each topic partition that they consume."""


class Consuming:
    """The consuming side of one connection."""

    __slots__ = ("_connection", "_delivering", "_lookup", "_shared", "_subscribing")

    def __init__(self, shared: Shared, connection: Connection, lookup: Lookup) -> None:
        self._shared = shared
        self._connection = connection
        self._lookup = lookup
        self._delivering = Delivering(shared, connection)
        self._subscribing = Waiting(
            shared, connection, consumer_refusal, PulsarEvent.SUBSCRIBE_HOLD_TIMED_OUT
        )

    @property
    def client_handlers(self) -> dict[int, Handler]:
        """Handlers of the client's commands that are always active."""
        return {
            _TYPES.SUBSCRIBE: self._subscribe,
            _TYPES.UNSUBSCRIBE: self._unsubscribe,
            _TYPES.CLOSE_CONSUMER: self._close,
        }

    @property
    def broker_handlers(self) -> dict[int, Handler]:
        """Handlers of the broker's commands that are always active."""
        return {_TYPES.CLOSE_CONSUMER: self._closed_by_broker}

    def begin(self, client: dict[int, Handler], broker: dict[int, Handler]) -> None:
        """The connection is open; handlers are added to its streams on demand."""
        self._delivering.begin(client, broker)

    def policies_changed(self, now_ns: int) -> None:
        """Go by the current policies; that may release messages."""
        self._delivering.policies_changed(now_ns)

    def closes(self) -> list[bytes]:
        """Commands that make the client reopen its consumers elsewhere."""
        consumers = self._delivering.consumers.values()
        return [
            close_consumer(consumer.subscriber.id) for consumer in consumers if consumer.subscriber.is_live
        ]

    # -- attaching and detaching ---------------------------------------------------------------------------

    def _subscribe(self, data: bytes, start: int, stop: int, now_ns: int) -> Handled:
        subscribe = parse_command(data, start, stop).subscribe
        self._connection.attaches()
        refuse = partial(self._subscribing.refuse, subscribe.request_id)
        try:
            topic = topic_name(subscribe.topic).full
        except ProtocolError as problem:
            return refuse(ServerError.INVALID_TOPIC_NAME, f"Invalid topic name: {problem}")
        if not subscribe.HasField("sub_type"):
            text = "unknown subscription type, expected Exclusive, Shared, Failover or Key_Shared"
            return refuse(ServerError.NOT_ALLOWED_ERROR, text)
        consumer_id = subscribe.consumer_id
        present = self._delivering.consumers.get(consumer_id)
        if present is not None or consumer_id in self._subscribing.held:
            if present is not None and present.subscriber.is_for(topic, subscribe.subscription):
                return PASS  # the broker has its own error for that, and changes nothing
            text = f"consumer id {consumer_id} is in use on this connection"
            return refuse(ServerError.NOT_ALLOWED_ERROR, text)
        if len(self._delivering.consumers) + len(self._subscribing.held) >= _MAX_CONSUMERS:
            text = f"more than {_MAX_CONSUMERS} consumers on one connection"
            return refuse(ServerError.TOO_MANY_REQUESTS, text)
        connection, subscription = self._connection, subscribe.subscription
        if not self._subscribing.has_short_names(subscribe.request_id, subscription):
            return TAKEN
        attach = Operation(
            OperationKind.ATTACH_CONSUMER,
            topic,
            connection.client.principal,
            connection.client.label,
            subscription=subscription,
            consumer=f"{connection.client.peer}/{consumer_id}",
        )
        admit, frame = partial(self._admit, subscribe), data[start:stop]
        return self._subscribing.request(
            consumer_id, subscribe.request_id, frame, attach, subscription, admit, now_ns
        )

    def _admit(self, subscribe: pb.Subscribe, request: Request, gate: Gate, now_ns: int) -> None:
        """A SUBSCRIBE is forwarded; the broker's response decides."""
        consumer = Consumer(
            self._shared,
            self._connection,
            gate,
            request.attach,
            subscribe,
            self._delivering.entry_bytes(request.attach.topic),
        )

        def answered(response: pb.BaseCommand, now_ns: int) -> Handled:
            if response.type == _TYPES.SUCCESS:
                consumer.subscriber.admitted()
                request.confirmed(gate)
                return PASS
            self._delivering.shut(consumer, now_ns)
            request.take_back(gate)
            return PASS

        self._delivering.add(consumer)
        self._subscribing.forwarded(request, answered)

    def _unsubscribe(self, data: bytes, start: int, stop: int, now_ns: int) -> Handled:
        unsubscribe = parse_command(data, start, stop).unsubscribe
        consumer = self._delivering.consumers.get(unsubscribe.consumer_id)
        if consumer is not None:

            def answered(response: pb.BaseCommand, now_ns: int) -> Handled:
                if response.type == _TYPES.SUCCESS:
                    self._delivering.shut(consumer, now_ns)
                    consumer.subscription_gone()
                return PASS

            self._connection.requests.expect(unsubscribe.request_id, answered)
        return PASS

    def _close(self, data: bytes, start: int, stop: int, now_ns: int) -> Handled:
        close = parse_command(data, start, stop).close_consumer
        self._subscribing.give_up(close.consumer_id, now_ns)
        consumer = self._delivering.consumers.get(close.consumer_id)
        if consumer is not None:
            if consumer.watch.messages:
                self._delivering.expect_closed(close.consumer_id, close.request_id, passes=True)
            self._subscribing.closing(close.consumer_id, close.request_id)
            self._delivering.remove(consumer, now_ns)
        return PASS

    def _closed_by_broker(self, data: bytes, start: int, stop: int, now_ns: int) -> Handled:
        command = parse_command(data, start, stop)
        consumer = self._delivering.consumers.get(command.close_consumer.consumer_id)
        if consumer is not None:
            self._delivering.remove(consumer, now_ns)
        if not self._lookup.reassign(command.close_consumer):
            return PASS
        return (ToClient(command_frame(command)),)

    def parting(self, now_ns: int) -> Iterator[None]:
        """The connection is closed: detach all its consumers, in slices."""
        self._subscribing.closed(now_ns)
        yield from self._delivering.parting(now_ns)
