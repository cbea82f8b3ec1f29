"""Decides messages: each passes, gets another delivery time, waits for its rate, or is refused.

A message waits as long as its rate requires, also beyond `max_hold`. Brokers do the same: they
stop reading, and the client's own `sendTimeout` is the limit. No response makes a client resend only that
message later: the codes for "try again" end the connection. The client then resends everything without a
receipt, of all its producers, and messages are stored twice. What is not forwarded when the connection ends
is discarded. A producer that sends more than may wait is closed alone and reopened (see `reopening`); its
connection is still read.
"""

from collections.abc import Callable, Sequence
from functools import partial

from sluicegate.broker import Buffer, ToUpstream
from sluicegate.engine.delivery_time import asked_ms, due_ms
from sluicegate.engine.gate import Gate
from sluicegate.model import Action, Decision
from sluicegate.sessions.work import TURN, Turn, Until, Work
from sluicegate_pulsar.codec.errors import ChecksumMismatchError
from sluicegate_pulsar.codec.frames import parse_command
from sluicegate_pulsar.codec.metadata import MetadataHead, at_once, read_composed, with_deliver_at
from sluicegate_pulsar.codec.own_frames import no_receipt, send_error, success
from sluicegate_pulsar.codec.pulsar_pb2 import ServerError
from sluicegate_pulsar.codec.sends import SendHead, parts_of
from sluicegate_pulsar.events import PulsarEvent
from sluicegate_pulsar.session.producer_state.assembly import Kept, Refusal
from sluicegate_pulsar.session.producer_state.chunks import key_of
from sluicegate_pulsar.session.producer_state.lifecycle import State
from sluicegate_pulsar.session.producer_state.producer import Producer
from sluicegate_pulsar.session.producer_state.sent import (
    NOT_EXAMINED,
    Changed,
    Examined,
    Sent,
)
from sluicegate_pulsar.session.producers.assembling import Assembling
from sluicegate_pulsar.session.producers.examining import Examining, holds_up
from sluicegate_pulsar.session.producers.publish_queues import PublishQueues
from sluicegate_pulsar.session.producers.reopening import Reopening
from sluicegate_pulsar.session.requests.connection import Connection
from sluicegate_pulsar.session.requests.handling import PASS, TAKEN, Handled
from sluicegate_pulsar.session.shared.refusals import send_code, send_text
from sluicegate_pulsar.session.shared.shared import Shared

_LEAST_WAIT_NS = 1_000_000
_DISCARDING = (State.OVERFLOWING, State.REOPENING)  # a set would take longer: hashes of enums are slow
DELAY_REJECTED = "pulsar_broker_topic_messages_delayed_rejected"
DELAY_OVERRIDDEN = "pulsar_broker_topic_messages_fixed_delay_overridden"


class Publishing:
    """Messages of one connection that do not simply pass.

    :param shared: the front's state.
    :param connection: where they come from.
    :param reopening: handles producers whose queues overflow.
    :param on_close: called with a producer, the client's CLOSE_PRODUCER and the time, once that producer has
        no waiting messages.
    """

    __slots__ = ("_connection", "_examining", "_on_close", "_reopening", "_shared", "assembling", "queues")

    def __init__(
        self,
        shared: Shared,
        connection: Connection,
        reopening: Reopening,
        on_close: Callable[[Producer, bytes, int], None],
    ) -> None:
        self._shared = shared
        self._connection = connection
        self.queues = PublishQueues(shared, connection, reopening)
        self._reopening = reopening
        self._on_close = on_close
        self._examining = Examining(shared, connection)
        self.assembling = Assembling(shared, connection, self._finish, self.queues.waits, self.queues.left)

    def send(self, producer: Producer, sent: Sent, now_ns: int) -> Handled:
        """Decide a SEND in its turn.

        :return: PASS if the frame passes unchanged.
        """
        if producer.lifecycle.state in _DISCARDING:
            self._shared.count(PulsarEvent.PUBLISH_DISCARDED)
            return TAKEN
        received_ms = self._shared.wall_ms(now_ns)
        if producer.queue:
            self.queues.append(producer, sent.copy(), received_ms, sent.head.txn)
            return TAKEN
        metadata = read_composed(*sent)
        examined = self._examining.examine_at_once(producer, sent, metadata, received_ms)
        if examined is None:
            self._hold(producer, None, sent, NOT_EXAMINED, received_ms, now_ns)
            return TAKEN
        if self._is_lost_piece(producer, sent, metadata):
            self._refuse_piece(producer, sent, metadata, now_ns)
            return TAKEN
        decision = self._decide(producer, sent, examined, received_ms, now_ns)
        if decision is None or not holds_up(decision):
            return self._conclude(producer, decision, sent, examined, received_ms, now_ns)
        if decision.action is Action.REWRITE and not self._examining.change_takes_long(metadata):
            changed = at_once(self._examining.changed(sent, examined, metadata, decision))
            return self._conclude_changed(producer, decision, sent, changed, received_ms, now_ns)
        kept = NOT_EXAMINED if decision.action is Action.DELAY else examined
        self._hold(producer, decision, sent, kept, received_ms, now_ns)
        return TAKEN

    def apply(self, producer: Producer, decision: Decision, sent: Sent, now_ns: int) -> Handled:
        """Apply a decision that was made without the message's metadata."""
        received_ms = self._shared.wall_ms(now_ns)
        if holds_up(decision):
            self._hold(producer, decision, sent, NOT_EXAMINED, received_ms, now_ns)
            return TAKEN
        return self._conclude(producer, decision, sent, NOT_EXAMINED, received_ms, now_ns)

    # -- deciding -------------------------------------------------------------------------------------

    def gate(self, producer: Producer, now_ns: int) -> Gate:
        """The current gate of a producer's topic, which the producer uses from here on."""
        gate = self._shared.gates.get(producer.topic, self._connection.client.exempt, now_ns)
        if gate is not producer.gate:
            producer.use(gate)
            self._connection.attaches()  # the policies changed, and it was compiled again
        return gate

    @staticmethod
    def _decide(
        producer: Producer, sent: Sent, examined: Examined, wall_ms: int, now_ns: int
    ) -> Decision | None:
        """Ask the producer's gate.

        :param wall_ms: the wall clock's time of `now_ns`.
        """
        gate, operation = producer.gate, producer.operation
        metadata, largest, contents, unreadable, deliver_at = examined
        operation.bytes = operation.largest = payload_size = sent.head.payload_size
        operation.messages = 1 if metadata is None else metadata.num_messages_in_batch
        if metadata is not None:
            if gate.delay is not None:
                operation.ahead_ms = metadata.publish_time - wall_ms
            elif gate.max_delay_ms > 0:
                operation.delay_ms = asked_ms(deliver_at or metadata.deliver_at or 0, wall_ms)
        if metadata is not None and metadata.is_chunk:
            operation.largest = producer.chunking.sizes.whole(metadata, payload_size)
        elif largest is not None:
            operation.largest = largest
        if not gate.reads:
            return gate.publish(operation, now_ns)
        operation.contents, operation.unreadable = contents, unreadable
        decision = gate.publish(operation, now_ns)
        operation.contents, operation.unreadable = (), ""
        return decision

    def _conclude(
        self,
        producer: Producer,
        decision: Decision | None,
        sent: Sent,
        examined: Examined,
        received_ms: int,
        now_ns: int,
    ) -> Handled:
        """Forward or refuse a message; PASS if the frame passes unchanged."""
        metadata = examined.metadata
        if decision is not None and decision.breaks is not None:
            return self._connection.break_off(decision)
        if decision is not None and decision.action in (Action.REJECT, Action.DROP):
            text = send_text(decision)
            if decision.reasons[0].policy == "max_delivery_delay":
                producer.gate.state.count(DELAY_REJECTED, producer.operation.messages)
            if metadata is not None and metadata.is_chunk:
                self.assembling.lose(producer, metadata.uuid, text, now_ns)
            self._refuse_in_order(producer, sent.head, metadata, text, now_ns)
            return TAKEN
        if metadata is not None and metadata.is_chunk:
            lost_text = self.assembling.lost(producer, metadata, now_ns)
            if lost_text:
                self._refuse_in_order(producer, sent.head, metadata, lost_text, now_ns)
                return TAKEN
            producer.chunking.sizes.passed(metadata, sent.head.payload_size)
        rule = producer.gate.delay
        # It belongs to a buffered chunked message, or follows one.
        is_kept = rule is not None and metadata is not None and metadata.is_chunk
        if producer.chunking.assembly is not None or is_kept:
            self.assembling.keep(producer, Kept(sent.copy(), sent.head, metadata, received_ms), now_ns)
            return TAKEN
        if metadata is None or (rule is None and not examined.deliver_at):
            producer.sent += 1
            return PASS
        frames = self._delayed(producer, sent, metadata, received_ms, examined.deliver_at)
        if frames is None:
            self._refuse_damaged(producer, sent.head)
            return TAKEN
        return [ToUpstream(frame) for frame in frames]

    def _conclude_changed(
        self,
        producer: Producer,
        decision: Decision | None,
        before: Sent,
        changed: Changed,
        received_ms: int,
        now_ns: int,
    ) -> Handled:
        """As `_conclude`, for a message whose properties were changed if that was decided."""
        if changed.is_damaged:
            self._refuse_damaged(producer, before.head)
            return TAKEN
        sent, examined = changed.sent, changed.examined
        if changed.refusal:
            self._refuse_in_order(producer, before.head, examined.metadata, changed.refusal, now_ns)
            return TAKEN
        handled = self._conclude(producer, decision, sent, examined, received_ms, now_ns)
        return [ToUpstream(sent.data)] if handled is PASS and sent is not before else handled

    def _delayed(
        self, producer: Producer, sent: Sent, metadata: MetadataHead, received_ms: int, least_ms: int = 0
    ) -> Sequence[Buffer] | None:
        """A message with the topic's or a header's delivery time in place of its own; None if damaged.

        :param least_ms: the earliest delivery time that it may get, ms of the wall clock.
        """
        gate = producer.gate
        rule = gate.delay or gate.header_delay
        assert rule is not None  # noqa: S101 - the caller has looked
        added_ms = self._shared.added_delay_ms
        if added_ms:  # brokers may deliver up to a tick early, and a topic can have a tick of its own
            added_ms = max(added_ms, rule.tick_ms)
        due = least_ms
        if rule.fixed_ms:
            due = max(due, due_ms(rule, metadata.publish_time, received_ms, received_ms))
        try:
            data, start, stop, _ = sent
            frames = with_deliver_at(data, start, stop, parts_of(*sent), due + added_ms, metadata)
        except ChecksumMismatchError:
            return None  # a new checksum would hide the damage
        if rule.fixed_ms and metadata.deliver_at is not None:
            gate.state.count(DELAY_OVERRIDDEN, metadata.num_messages_in_batch)
        producer.sent += 1
        completes = not metadata.is_chunk or metadata.is_last_chunk
        answered_as = max(sent.head.sequence_id, sent.head.highest_sequence_id)
        key = key_of(metadata.uuid) if metadata.is_chunk else ""
        producer.rewritten.messages.append((producer.sent, answered_as, completes, key))
        return frames

    def _refuse_damaged(self, producer: Producer, head: SendHead) -> bool:
        """Refuse a message whose checksum is wrong; returns as `refuse`."""
        self._shared.count(PulsarEvent.PUBLISH_CHECKSUM_FAILED)
        return self.refuse(producer, head, ServerError.CHECKSUM_ERROR, "Checksum failed on the broker")

    def _finish(self, producer: Producer, kept: Kept, due_ms: int, now_ns: int) -> bool:
        """Forward or answer a message that was buffered with chunks (`assembling.Finish`)."""
        frame, head, metadata = kept.frame, kept.head, kept.metadata
        if kept.refusal is not None:
            return self.refuse(producer, head, *kept.refusal)
        if metadata is None or self.gate(producer, now_ns).delay is None:
            producer.sent += 1
            self._connection.send_up(frame)
            return True
        least_ms = due_ms if metadata.is_chunk else 0
        sent = Sent(frame, 0, len(frame), head)
        frames = self._delayed(producer, sent, metadata, kept.received_ms, least_ms)
        if frames is None:
            return self._refuse_damaged(producer, head)
        self._connection.send_up(*frames)
        return True

    # -- answering ------------------------------------------------------------------------------------

    def refuse(
        self, producer: Producer, head: SendHead, code: ServerError, text: str, completes: bool = True
    ) -> bool:
        """Refuse a message, after the receipts of earlier ones.

        A client that gets an error out of order reconnects.

        :param completes: False for a chunk that is not the last of its message. It gets a receipt, and the
            last chunk the error: Java releases the message's payload at each error, and reconnects forever.
        :return: False if there is no memory for the answer: the producer overflows.
        """
        if head.is_chunk:
            producer.chunking.refuse(head.sequence_id, text)
            producer.settle()
        sequence_id = max(head.sequence_id, head.highest_sequence_id)
        if completes:
            frame = send_error(producer.id, sequence_id, code, text)
        else:
            frame = no_receipt(producer.id, sequence_id)
        if producer.is_answered:
            self._connection.send_down(frame)
            return True
        return self.queues.append_refusal(producer, frame)

    @staticmethod
    def _is_lost_piece(producer: Producer, sent: Sent, metadata: MetadataHead | None) -> bool:
        """True for a chunk of a message whose other chunk was refused, so that it can never be complete."""
        if producer.chunking.refused_id < 0:
            return False
        is_lost = producer.chunking.is_refused(sent.head, metadata)
        producer.settle()
        return is_lost

    def _refuse_piece(
        self, producer: Producer, sent: Sent, metadata: MetadataHead | None, now_ns: int
    ) -> None:
        self._refuse_in_order(producer, sent.head, metadata, producer.chunking.refused_text, now_ns)

    def _refuse_in_order(
        self, producer: Producer, head: SendHead, metadata: MetadataHead | None, text: str, now_ns: int
    ) -> None:
        """Refuse a message after those that are buffered with chunks."""
        completes = metadata is None or metadata.is_last_chunk
        refusal = Refusal(send_code(self._connection.client.version), text, completes)
        if producer.chunking.assembly is not None:
            self.assembling.refuse(producer, head, refusal, now_ns)
        else:
            self.refuse(producer, head, *refusal)

    def answered(self, producer: Producer, *, all_of_it: bool = False) -> list[bytes]:
        """The refusals that are due now, the broker's among them.

        :param all_of_it: True if no more responses of the broker will arrive.
        """
        due = []
        refusals = producer.refusals
        while True:
            while refusals and (all_of_it or refusals[0][0] <= producer.answered):
                due.append(self.queues.popleft_refusal(producer))
            refused = producer.pop_refused()
            if not refused:
                return due
            due.append(refused)

    # -- waiting --------------------------------------------------------------------------------------

    def _hold(
        self,
        producer: Producer,
        decision: Decision | None,
        sent: Sent,
        examined: Examined,
        received_ms: int,
        now_ns: int,
    ) -> None:
        """Queue the first message of a producer that has to wait, or takes long.

        :param decision: about it; None if it is not decided yet.
        :param examined: what was decided upon, if it need not be decided again.
        """
        if not self.queues.append(producer, sent.copy(), received_ms, sent.head.txn):
            producer.gate.abandon(producer.operation, now_ns)
            self._reopening.close_if_done(producer, now_ns)
            return
        drain, drained = partial(self._drain, producer, decision, examined), partial(self._drained, producer)
        producer.lifecycle.run(self._connection.wait, drain, drained, now_ns)

    def _drain(
        self, producer: Producer, decision: Decision | None, examined: Examined, turn: Turn
    ) -> Work[None]:
        """Forward a producer's waiting messages, each once its rate allows.

        :param decision: about the first one; None if it is not decided yet.
        :param examined: as for `_hold`.
        """
        queue = producer.queue
        try:
            while queue and not queue[0].is_close:
                yield from self._forward_first(producer, decision, examined, turn)
                decision, examined = None, NOT_EXAMINED
        finally:
            # Closed while it waited: an entry left in the rate's queue would hold up those behind it.
            if producer.operation.waiter is not None:
                self.gate(producer, turn.now_ns).abandon(producer.operation, turn.now_ns)
            self.queues.cut(producer, 0)

    def _forward_first(
        self, producer: Producer, decision: Decision | None, examined: Examined, turn: Turn
    ) -> Work[None]:
        """Forward or refuse the first message of a queue, once its rate allows (parameters as `_drain`)."""
        frame, received_ms, _ = producer.queue[0]
        sent = Sent.whole(frame)
        memory, nbytes, is_lost = self._connection.memory, 0, False
        metadata = examined.metadata or read_composed(*sent)
        if producer.gate.reads:
            memory.keep(nbytes := self._examining.memory(metadata))
        try:
            if decision is None or decision.action is Action.DELAY:
                decided = self._decided(producer, decision, sent, metadata, received_ms, turn)
                decision, examined, is_lost = yield from decided
            changed = Changed(sent, examined)
            if decision is not None and decision.action is Action.REWRITE and not is_lost:
                changed = yield from self._examining.changed(sent, examined, metadata, decision)
        finally:
            memory.give(nbytes)
        self.queues.popleft(producer)
        if is_lost:
            self._refuse_piece(producer, sent, metadata, turn.now_ns)
        else:
            handled = self._conclude_changed(producer, decision, sent, changed, received_ms, turn.now_ns)
            self._connection.out.extend([ToUpstream(frame)] if handled is PASS else handled)
        self.queues.left(sent.head.txn)

    def _decided(
        self,
        producer: Producer,
        decision: Decision | None,
        sent: Sent,
        metadata: MetadataHead | None,
        received_ms: int,
        turn: Turn,
    ) -> Work[tuple[Decision | None, Examined, bool]]:
        """What is decided about the first message of a queue, once its rate allows.

        :return: besides, what was decided upon; and True if another piece of its message was refused.
        """
        examined, examined_for = NOT_EXAMINED, None
        while True:
            if decision is not None:
                yield Until(turn.now_ns + max(_LEAST_WAIT_NS, decision.delay_ns))
                if self._reopening.has_waited(producer, turn.now_ns):
                    self.queues.cut(producer, 1)
            while not self._connection.may_go_on():
                yield TURN
            # Policies may have changed while it waited, and with them the gate that decides.
            gate = self.gate(producer, turn.now_ns)
            if gate is not examined_for:
                examined = yield from self._examining.examine(producer, sent, metadata, received_ms)
                examined_for = gate
            if self._is_lost_piece(producer, sent, metadata):
                return None, examined, True
            wall_ms = self._shared.wall_ms(turn.now_ns)
            decision = self._decide(producer, sent, examined, wall_ms, turn.now_ns)
            if decision is None or decision.action is not Action.DELAY:
                return decision, examined, False

    def _drained(self, producer: Producer, result: None, now_ns: int) -> None:
        """Nothing waits any longer but the client's close."""
        while producer.queue:
            self._on_close(producer, self.queues.popleft(producer), now_ns)
        producer.settle()
        self._reopening.close_if_done(producer, now_ns)

    def drop(self, producer: Producer, now_ns: int) -> None:
        """Discard all waiting messages of a closed producer."""
        producer.lifecycle.stop(now_ns)
        self.assembling.drop(producer, now_ns)
        while producer.queue:  # the close took effect, and its client waits for an answer
            frame = self.queues.popleft(producer)
            request_id = parse_command(frame, 0, len(frame)).close_producer.request_id
            self._connection.send_down(success(request_id))
