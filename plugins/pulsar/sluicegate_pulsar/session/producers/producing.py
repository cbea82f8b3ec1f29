"""Publishing: admission of producers and messages.

Admitted messages are forwarded unchanged. `publishing` handles all others, `attaching` the
producers.
"""

from collections.abc import Iterator

from sluicegate.broker import ToClient, ToUpstream
from sluicegate_pulsar.codec import pulsar_pb2 as pb
from sluicegate_pulsar.codec.entries import BATCH_TAG, LONG_TAG, messages_in
from sluicegate_pulsar.codec.frames import command_frame, frame_of, parse_command
from sluicegate_pulsar.codec.own_frames import close_producer, no_receipt, send_error, success
from sluicegate_pulsar.codec.receipts import producer_of
from sluicegate_pulsar.codec.sends import head_of, send_fields
from sluicegate_pulsar.events import PulsarClose, PulsarEvent
from sluicegate_pulsar.session.producer_state.lifecycle import State
from sluicegate_pulsar.session.producer_state.producer import Producer
from sluicegate_pulsar.session.producer_state.sent import sent_of
from sluicegate_pulsar.session.producers.attaching import Attaching
from sluicegate_pulsar.session.producers.foretelling import Foretelling
from sluicegate_pulsar.session.producers.producers import Producers
from sluicegate_pulsar.session.producers.publishing import Publishing
from sluicegate_pulsar.session.producers.reopening import Reopening
from sluicegate_pulsar.session.requests.body import LARGE
from sluicegate_pulsar.session.requests.connection import Connection
from sluicegate_pulsar.session.requests.handling import PASS, TAKEN, Handled, Handler
from sluicegate_pulsar.session.requests.lookup import Lookup
from sluicegate_pulsar.session.shared.broker_refusals import explained
from sluicegate_pulsar.session.shared.refusals import send_code
from sluicegate_pulsar.session.shared.shared import Shared

_TYPES = pb.BaseCommand.Type
_ENDED_PER_SLICE = 100
"""Producers that are detached in one slice once their connection is gone, some 10 us each."""
_MAX_RECENT = 1_000
"""Producers of one connection closed by the broker whose last messages may still be on their way."""
_PONG = frame_of(pb.Pong())


class Producing:
    """The publishing side of one connection."""

    __slots__ = (
        "_attaching",
        "_connection",
        "_gates",
        "_leaving",
        "_live",
        "_lookup",
        "_producers",
        "_publishing",
        "_recent",
        "_reopening",
        "_shared",
        "foretelling",
    )

    def __init__(self, shared: Shared, connection: Connection, lookup: Lookup) -> None:
        self._shared = shared
        self._gates = shared.gates
        self._connection = connection
        self._lookup = lookup
        self._producers = Producers(shared, connection)
        self._live = self._producers.live
        self._attaching = Attaching(shared, connection, self._producers, self._end)
        self._reopening = Reopening(shared, connection, self._producers, self._start_over, self._crossing)
        self._publishing = Publishing(shared, connection, self._reopening, self._close)
        self.foretelling = Foretelling(self._live, self._is_current)
        self._leaving: dict[int, Producer] = {}
        self._recent: dict[int, None] = {}

    @property
    def client_handlers(self) -> dict[int, Handler]:
        """Handlers of the client's commands."""
        return {
            _TYPES.PRODUCER: self._producer,
            _TYPES.SEND: self._send,
            _TYPES.CLOSE_PRODUCER: self._closed_by_client,
            _TYPES.END_TXN: self._publishing.queues.end_txn,
        }

    @property
    def broker_handlers(self) -> dict[int, Handler]:
        """Handlers of the broker's commands."""
        return {
            _TYPES.SEND_RECEIPT: self._answer,
            _TYPES.SEND_ERROR: self._refused,
            _TYPES.CLOSE_PRODUCER: self._closed_by_broker,
            _TYPES.PING: self._ping,
        }

    # -- messages -------------------------------------------------------------------------------------

    def _send(self, data: bytes, start: int, stop: int, now_ns: int) -> Handled:
        # <hot> Runs for every message.
        producer_id, _, _, _, _, size, begin, end = fields = send_fields(data, start, stop)
        producer = self._live.get(producer_id)
        if producer is None:
            self.foretelling.forget(now_ns)
            return self._stray(producer_id)
        metadata = data[begin:end]
        messages = 1
        if BATCH_TAG in metadata or LONG_TAG in metadata:
            messages = messages_in(metadata)
        operation = producer.operation
        gate = producer.gate
        gates = self._gates.exempt if self._connection.client.exempt else self._gates.live
        if gates.get(operation.topic) is not gate:
            gate = self._publishing.gate(producer, now_ns)
        if not (producer.is_plain and messages) or size > producer.size_limit:
            if stop - start > LARGE:
                self.foretelling.take()
            if producer.lifecycle.state is State.CLOSING:
                return self._stray(producer_id)
            return self._publishing.send(producer, sent_of((data, start, stop, head_of(fields))), now_ns)
        operation.messages = messages
        operation.bytes = operation.largest = size
        if stop - start > LARGE and self.foretelling.decision is not None:
            decision = self.foretelling.take()
        else:
            decision = gate.publish(operation, now_ns)
        if decision is None:
            producer.sent += 1
            return PASS
        return self._publishing.apply(
            producer, decision, sent_of((data, start, stop, head_of(fields))), now_ns
        )

    def _is_current(self, producer: Producer) -> bool:
        """Whether a producer uses the gate that is in force."""
        gates = self._gates.exempt if self._connection.client.exempt else self._gates.live
        return gates.get(producer.operation.topic) is producer.gate

    def _stray(self, producer_id: int) -> Handled:
        """Close the connection for a message of an unknown producer, unless it crossed a close."""
        if producer_id in self._recent:
            self._shared.count(PulsarEvent.SEND_AFTER_CLOSE)
        else:
            client = self._connection.client.label
            detail = f"SEND for producer id {producer_id}, which is not open, from {client}"
            self._connection.close(PulsarClose.SEND_WITHOUT_PRODUCER, detail)
        return TAKEN

    def _answer(self, data: bytes, start: int, stop: int, now_ns: int) -> Handled:
        """The broker has answered a message; refusals queued after it may be due now."""
        # <hot> Runs for every message.
        producer_id = producer_of(data, start, stop)
        # Receipts still come for a producer whose close the broker has not answered.
        producer = self._live.get(producer_id) or self._leaving.get(producer_id)
        if producer is None:
            return PASS
        producer.answered += 1
        if not (producer.refusals or producer.rewritten.messages) and (
            producer.is_plain or producer.lifecycle.state is not State.OVERFLOWING
        ):
            return PASS
        answer = producer.rewritten.answered(producer.answered) or memoryview(data)[start:stop]
        self._connection.send_down(answer, *self._publishing.answered(producer))
        self._reopening.close_if_done(producer, now_ns)
        return TAKEN

    def _refused(self, data: bytes, start: int, stop: int, now_ns: int) -> Handled:
        """The broker has refused a message."""
        producer_id = producer_of(data, start, stop)
        producer = self._live.get(producer_id) or self._leaving.get(producer_id)
        if producer is None or not self._explain(producer, data, start, stop, now_ns):
            return self._answer(data, start, stop, now_ns)
        self._connection.send_down(*self._publishing.answered(producer))
        self._reopening.close_if_done(producer, now_ns)
        return TAKEN

    def _explain(self, producer: Producer, data: bytes, start: int, stop: int, now_ns: int) -> bool:
        """Answer in its turn a message that the broker refuses for what the gateway did to it.

        :return: False if the broker's answer passes as it is.
        """
        if not producer.rewritten.messages:
            return False
        error = parse_command(data, start, stop).send_error
        explanation = explained(error.message, producer.gate)
        if explanation is None:
            return False
        code = send_code(self._connection.client.version)
        key = producer.rewritten.refuse(
            error.sequence_id,
            send_error(producer.id, error.sequence_id, code, explanation.text),
            no_receipt(producer.id, error.sequence_id),
        )
        if key is None:
            return False
        if key:
            self._publishing.assembling.lose(producer, key, explanation.text, now_ns)
        self._shared.count(explanation.event)
        self._shared.reports.add((producer.topic, explanation.text))
        return True

    def _ping(self, data: bytes, start: int, stop: int, now_ns: int) -> Handled:
        """Answer the broker's PING while the client is not read, so that the broker does not hang up."""
        if self._connection.reading.stops:
            self._connection.send_up(_PONG)
        return PASS

    # -- producers ------------------------------------------------------------------------------------

    def _producer(self, data: bytes, start: int, stop: int, now_ns: int) -> Handled:
        request = parse_command(data, start, stop).producer
        self._connection.attaches()
        # Even if it has to wait: no frame of an earlier producer with this id follows.
        self._recent.pop(request.producer_id, None)
        self._end(self._leaving.pop(request.producer_id, None), now_ns)
        if self._reopening.reopen(request, now_ns):
            return TAKEN
        handled = self._attaching.attach(request, data[start:stop], now_ns)
        if handled is PASS and self._connection.out:
            return (ToUpstream(data[start:stop]),)  # after the close of another one that it replaces
        return handled

    def _closed_by_client(self, data: bytes, start: int, stop: int, now_ns: int) -> Handled:
        request = parse_command(data, start, stop).close_producer
        if self._attaching.give_up(request.producer_id, now_ns):
            return (ToClient(success(request.request_id)),)
        producer = self._live.get(request.producer_id)
        if producer is None:
            return PASS
        if not producer.queue:
            self._close(producer, data[start:stop], now_ns)
        else:
            self._publishing.queues.append_close(producer, data[start:stop])
        return TAKEN

    def _start_over(self, producer: Producer, now_ns: int) -> bool:
        """The client is about to reopen a producer, and resends all that has no receipt.

        :return: False if it has to wait for receipts of what is forwarded first.
        """
        assembling = self._publishing.assembling
        assembling.give_up_stalled(producer, now_ns)
        if not producer.is_answered:
            return False
        assembling.drop(producer, now_ns)
        return True

    def _close(self, producer: Producer, frame: bytes, now_ns: int) -> None:
        """Forward the client's close of a producer without waiting messages."""
        self._publishing.assembling.end(producer, now_ns)
        self._connection.send_up(frame)
        if self._live.get(producer.id) is not producer:
            return  # closed a second time
        self._producers.detach(producer, now_ns)
        request_id = parse_command(frame, 0, len(frame)).close_producer.request_id
        self._attaching.closing(producer.id, request_id)
        if not (producer.refusals or producer.rewritten.messages):
            return
        self._leaving[producer.id] = producer

        def on_response(response: pb.BaseCommand, now_ns: int) -> Handled:
            # The broker answers after all receipts, so refusals that wait for them are due.
            self._leaving.pop(producer.id, None)
            due = self._publishing.answered(producer, all_of_it=True)
            return [ToClient(frame) for frame in (*due, command_frame(response))]

        self._connection.requests.expect(request_id, on_response)

    def _closed_by_broker(self, data: bytes, start: int, stop: int, now_ns: int) -> Handled:
        """The client reopens the producer, here or elsewhere, and resends what has no receipt."""
        command = parse_command(data, start, stop)
        producer_id = command.close_producer.producer_id
        producer = self._live.get(producer_id)
        if producer is not None:
            reopens = producer.lifecycle.state is State.REOPENING
            self._producers.detach(producer, now_ns)
            self._end(producer, now_ns)
            self._crossing(producer_id)
            if reopens:  # the client does so already
                return TAKEN
        if not self._lookup.reassign(command.close_producer):
            return PASS
        return (ToClient(command_frame(command)),)

    def _crossing(self, producer_id: int) -> None:
        """Accept messages that the client sent before it learned of the close."""
        self._recent[producer_id] = None
        if len(self._recent) > _MAX_RECENT:
            del self._recent[next(iter(self._recent))]

    def _end(self, producer: Producer | None, now_ns: int) -> None:
        """Discard the waiting messages of a producer: its client resends them, or has disconnected."""
        if producer is not None:
            self._publishing.drop(producer, now_ns)
            self._publishing.answered(producer, all_of_it=True)

    def ending(self, now_ns: int) -> bool:
        """Discard waiting messages, as clients resend them elsewhere.

        :return: True once everything forwarded is answered: then no resent message was stored before.
        """
        producers = (*self._live.values(), *self._leaving.values())
        for producer in producers:
            if producer.queue or producer.chunking.assembly is not None:
                self._publishing.drop(producer, now_ns)
        return all(one.is_answered and not one.refusals for one in producers)

    def closes(self) -> list[bytes]:
        """Commands that make the client reopen its producers elsewhere."""
        return [close_producer(producer.id) for producer in self._live.values() if producer.lifecycle.opened]

    def parting(self, now_ns: int) -> Iterator[None]:
        """The connection is closed: detach all its producers, in slices."""
        self.foretelling.forget(now_ns)
        for count, producer in enumerate([*self._live.values(), *self._leaving.values()], 1):
            self._end(producer, now_ns)
            if count % _ENDED_PER_SLICE == 0:
                yield
        self._leaving.clear()
        gone = list(self._live.values())
        while gone:  # emptied meanwhile, as dropping thousands of producers at once takes long too
            self._producers.detach(gone.pop(), now_ns)
            if len(gone) % _ENDED_PER_SLICE == 0:
                yield
        self._attaching.closed(now_ns)
