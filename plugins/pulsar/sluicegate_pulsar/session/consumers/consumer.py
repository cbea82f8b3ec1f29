"""One consumer: its withheld messages, and their delivery.

Messages are withheld in the order in which the broker sent them, until they are due, within the rates, and
the consumer has acknowledged enough. A discarded message was never delivered: the broker resends it if the
topic is persistent.
"""

from collections.abc import Iterable, Sequence
from itertools import count, islice

from sluicegate.engine.gate import Gate
from sluicegate.model import Action, Breakage, Decision, Operation, OperationKind
from sluicegate.sessions.work import TURN, Turn, Until, Work
from sluicegate_pulsar.codec import pulsar_pb2 as pb
from sluicegate_pulsar.codec.errors import ProtocolError
from sluicegate_pulsar.codec.frames import frame_of
from sluicegate_pulsar.codec.message_frames import MessageHead, read_message, times_of
from sluicegate_pulsar.events import PulsarEvent
from sluicegate_pulsar.session.consumers.chunk_order import ChunkOrder
from sluicegate_pulsar.session.consumers.due import Dates, dates_of, due_in_ms
from sluicegate_pulsar.session.consumers.permits import Permits
from sluicegate_pulsar.session.consumers.subscriber import Subscriber, Watch
from sluicegate_pulsar.session.consumers.unacked import Entry, Unacked
from sluicegate_pulsar.session.consumers.withheld import OVERHEAD, OverfullError, Withheld, WithheldQueue
from sluicegate_pulsar.session.requests.connection import Connection
from sluicegate_pulsar.session.requests.handling import PASS, TAKEN, Handled
from sluicegate_pulsar.session.shared.shared import Shared

_UNACKED = "max_unacked_messages_per_consumer"
_NS_PER_MS = 1_000_000
_LONGEST_WAIT_NS = 1_000_000_000
"""Withheld messages are decided again at least this often, as policies change."""
_SHORTEST_WAIT_NS = 2 * _NS_PER_MS
"""A wake-up for each message would cost more than the message."""
_IDS_PER_SLICE = 2_000
"""Message ids that are looked up in one slice: some 2 ms. Clients send up to 1,000 at once."""
_DROP = -1
_MAX_FLOW = 2**31 - 1
_DISPATCH = OperationKind.DISPATCH
_ACKNOWLEDGE = OperationKind.ACKNOWLEDGE


class Consumer:
    """One consumer of one connection.

    :param shared: the front's state.
    :param connection: the consumer's.
    :param attach: the operation by which it was admitted; names topic, subscription and consumer.
    :param subscribe: the client's command.
    :param entry_bytes: size to expect of an entry; 0 if nothing is known.
    """

    __slots__ = (
        "_chunks",
        "_connection",
        "_numbers",
        "_op",
        "_queue",
        "_shared",
        "_unacked",
        "_wakes_ns",
        "gate",
        "permits",
        "subscriber",
        "watch",
    )

    def __init__(
        self,
        shared: Shared,
        connection: Connection,
        gate: Gate,
        attach: Operation,
        subscribe: pb.Subscribe,
        entry_bytes: int = 0,
    ) -> None:
        self._shared = shared
        self._connection = connection
        self.subscriber = subscriber = Subscriber(attach, subscribe)
        self.gate = gate
        """The gate that admitted it, and that releases it."""
        self._queue = WithheldQueue(shared, connection)
        self._chunks = ChunkOrder(shared, connection)
        self._wakes_ns = 0
        """When withheld messages are decided again; 0 if none wait."""
        self._unacked = Unacked(connection)
        self._numbers = count()
        # Once early messages have overflowed, permits have to be counted, so everything is read.
        may_glance = not subscriber.one_by_one and subscriber.reliable and not entry_bytes
        self._op = subscriber.operation(_DISPATCH)
        self.watch = Watch(may_glance=may_glance)
        self.watch.follow(gate, reliable=subscriber.reliable)
        exact = self.watch.messages and not self.watch.glances
        self.permits = Permits(shared.config.consumer_buffer // 2, entry_bytes, exact=exact)

    # -- policies -----------------------------------------------------------------------------------

    def _follow(self, gate: Gate) -> None:
        """Determine what has to be read under the current policies."""
        counted = self.watch.acknowledgements
        self.watch.follow(gate, reliable=self.subscriber.reliable)
        if counted and not self.watch.acknowledgements:
            # Its acknowledgements from here on pass unread.
            self._unacked.clear()
            attach = self.subscriber.attach
            known = gate.state.subscriptions.get(attach.subscription)
            if known is not None:
                known.unacked.pop(attach.consumer, None)

    def policies_changed(self, now_ns: int) -> None:
        """Apply changed policies."""
        self._follow(self._current(now_ns))
        if self._queue:
            self.pump(now_ns)
        if self._queue or self._chunks:
            self.watch.read_on()
        if not self.watch.messages:
            self.permits.lose_count()
        self.flow()

    def _current(self, now_ns: int) -> Gate:
        return self._shared.gates.get(self.subscriber.topic, self._connection.client.exempt, now_ns)

    # -- messages -----------------------------------------------------------------------------------

    def message(self, data: bytes, start: int, stop: int, now_ns: int) -> Handled:
        """A message from the broker; PASS if it passes unchanged.

        :raises withheld.OverfullError: if there is no room to withhold it.
        """
        if self.watch.glances and not self._queue and self._is_due(data, start, stop, now_ns):
            return PASS
        try:
            head = read_message(data, start, stop)
        except ProtocolError:
            return self._unreadable(data, start, stop)
        self.permits.used(head.messages, stop - start + OVERHEAD)
        gate = self._current(now_ns)
        if head.metadata.is_chunk and self._orders_chunks(gate):
            return self._chunk(gate, data, start, stop, head, now_ns)
        return self._arrived(gate, data, start, stop, head, now_ns)

    def _orders_chunks(self, gate: Gate) -> bool:
        """Whether the broker holds back each chunk by itself, and can send it again."""
        return (
            self.subscriber.reliable
            and not self.subscriber.one_by_one
            and (gate.delay is not None or bool(self._chunks))
        )

    def _chunk(
        self, gate: Gate, data: bytes, start: int, stop: int, head: MessageHead, now_ns: int
    ) -> Handled:
        """A chunk waits for those before it, and those that waited for it follow."""
        chunk = head.metadata
        if self._chunks.is_early(chunk):
            entry = (head.ledger_id, head.entry_id)
            item = Withheld.of(data, start, stop, head, entry, self._dates(gate, data, head, entry, now_ns))
            self._append(self._chunks.keep(chunk, item, now_ns))
            # The client does not see it yet, so the broker gets a permit for the chunk that is missing.
            self.permits.grant(head.messages)
            self.flow()
            self._wake(_LONGEST_WAIT_NS, now_ns)
            return TAKEN
        handled = self._arrived(gate, data, start, stop, head, now_ns)
        followers = self._chunks.passed(chunk, now_ns)
        if not followers:
            return handled
        if handled is PASS:
            self._connection.send_down(data[start:stop])
        self._append(followers)
        self.pump(now_ns)
        return TAKEN

    def _append(self, chunks: Iterable[Withheld]) -> None:
        """Withhold chunks in their order that have waited for others."""
        for item in chunks:
            self.permits.grant(self._queue.append_held(item) - item.messages)

    def _arrived(
        self, gate: Gate, data: bytes, start: int, stop: int, head: MessageHead, now_ns: int
    ) -> Handled:
        """Handle a message in its order; PASS if it passes unchanged."""
        messages = head.messages
        # All non-persistent messages have the id 0:0, and none is ever redelivered.
        entry = (head.ledger_id, head.entry_id) if self.subscriber.reliable else (0, next(self._numbers))
        if self.watch.acknowledgements:
            # The broker sends an entry again only once it is no longer with a consumer.
            self._acknowledge(gate, self._unacked.forget(entry), now_ns)
        dates = self._dates(gate, data, head, entry, now_ns)
        if not self._queue:
            wait_ns = self._wait_ns(gate, messages, stop - head.parts.payload, dates, now_ns)
            if wait_ns == 0:
                self._passed(gate, entry, messages, now_ns)
                if self.permits.waiting:
                    self.flow()
                return PASS
            if wait_ns == _DROP:
                self.permits.grant(messages)
                self.flow()
                return TAKEN
            self._wake(wait_ns, now_ns)
        self._withhold(Withheld.of(data, start, stop, head, entry, dates))
        return TAKEN

    def _dates(self, gate: Gate, data: bytes, head: MessageHead, entry: Entry, now_ns: int) -> Dates | None:
        rule = gate.delay
        if rule is None:
            return None
        return dates_of(data, head, rule, self._shared, (self.subscriber.topic, *entry), now_ns)

    def _is_due(self, data: bytes, start: int, stop: int, now_ns: int) -> bool:
        """Whether a message is certainly due; False also if it has to be parsed first."""
        rule = self._current(now_ns).delay
        if rule is None or rule.clock != "publish_time":
            return False
        times = times_of(data, start, stop)
        if times is None:
            return False
        published_ms, deliver_at_ms = times
        wall_ms = self._shared.wall_ms(now_ns)
        # One that lies ahead may be the gateway's own, for what came later than its producer says.
        return published_ms + rule.fixed_ms <= wall_ms and deliver_at_ms <= wall_ms

    def _unreadable(self, data: bytes, start: int, stop: int) -> Handled:
        """The client reports what is wrong with it; from here on the number of permits is unknown."""
        self._shared.count(PulsarEvent.UNREADABLE_MESSAGE_PASSED)
        self.permits.lose_count()
        return self.in_order(data, start, stop)

    def in_order(self, data: bytes, start: int, stop: int) -> Handled:
        """A frame that must not overtake messages; PASS if it passes unchanged."""
        if not self._queue:
            return PASS
        self._withhold(Withheld(data[start:stop], None))
        return TAKEN

    def _withhold(self, item: Withheld) -> None:
        try:
            self.permits.grant(self._queue.append(item))
        except OverfullError:
            if self.subscriber.reliable:
                raise
            # The broker would have dropped it too, without permits, and cannot resend it.
            self._shared.count(PulsarEvent.DISPATCH_DROPPED)
            self.permits.grant(item.messages)

    def _wait_ns(
        self, gate: Gate, messages: int, payload_bytes: int, dates: Dates | None, now_ns: int
    ) -> int:
        """How long a message has to wait; 0 if it passes now, and is charged; _DROP if it is dropped."""
        rule = gate.delay
        if rule is not None and dates is not None:
            wait_ms = due_in_ms(rule, dates, self._shared, now_ns)
            if wait_ms > 0:
                return wait_ms * _NS_PER_MS
        op = self._op
        op.messages, op.bytes = messages, payload_bytes
        decision = gate.dispatch(op, now_ns)
        if decision is None:
            if self.permits.are_withheld:
                self.permits.release()
            return 0
        return self._wait_by(decision)

    def _wait_by(self, decision: Decision) -> int:
        action = decision.action
        if action in (Action.ALLOW, Action.REWRITE):
            return 0
        if action is Action.DROP and not self.subscriber.reliable:
            self._shared.count(PulsarEvent.DISPATCH_DROPPED)
            return _DROP
        if decision.breaks is Breakage.CONNECTION:
            self._connection.break_off(decision)
        if decision.reasons[0].policy == _UNACKED:
            self.permits.withhold()
        else:
            self.permits.release()
        return max(decision.delay_ns, _SHORTEST_WAIT_NS) if decision.delay_ns else _LONGEST_WAIT_NS

    def _passed(self, gate: Gate, entry: Entry, messages: int, now_ns: int) -> None:
        if self.watch.acknowledgements:
            again = self._unacked.forget(entry)  # a chunk that came twice while an earlier one was awaited
            self._unacked.delivered(entry, messages)
            self._acknowledge(gate, again + self._unacked.forget_surplus(), now_ns)

    def pump(self, now_ns: int) -> None:
        """Deliver what is due."""
        queue = self._queue
        gate = self._current(now_ns)
        if self._chunks:
            self._append(self._chunks.overdue(now_ns))
            self._wake(_LONGEST_WAIT_NS, now_ns)
        while queue:
            if not self._connection.may_go_on():
                self._wake(1, now_ns)
                break
            item = queue.first
            wait_ns = 0
            if item.entry is not None:
                wait_ns = self._wait_ns(gate, item.messages, item.payload_bytes, item.dates, now_ns)
                if wait_ns > 0:
                    self._wake(wait_ns, now_ns)
                    break
            queue.take_first()
            if wait_ns == _DROP:
                self.permits.grant(item.messages)
            elif item.frame:
                self._connection.send_down(item.frame)
                if item.entry is not None:
                    self._passed(gate, item.entry, item.messages, now_ns)
        self.flow()

    def _wake(self, wait_ns: int, now_ns: int) -> None:
        at_ns = now_ns + min(wait_ns, _LONGEST_WAIT_NS)
        if not 0 < self._wakes_ns <= at_ns:
            self._wakes_ns = at_ns
            self._connection.wait(Until(at_ns), self._woken)

    def _woken(self, now_ns: int, answer: object) -> None:
        # Timers are not cancelled: those that an earlier one replaced still call.
        if 0 < self._wakes_ns <= now_ns:
            self._wakes_ns = 0
            self.pump(now_ns)

    def begin_anew(self, now_ns: int) -> None:
        """The broker resends what is not acknowledged: discard withheld messages, but keep their permits."""
        if not self.subscriber.reliable:
            return  # the broker cannot resend non-persistent messages
        self._drop(now_ns)
        if self.watch.acknowledgements:
            self._acknowledge(self._current(now_ns), self._unacked.clear(), now_ns)
        self.flow()

    def _drop(self, now_ns: int) -> None:
        self._chunks.clear()
        self.permits.grant(self._queue.clear())
        self.gate.abandon(self._op, now_ns)
        self.permits.release()

    def gone(self, now_ns: int) -> None:
        """The consumer is closed: discard its withheld messages, and release its place."""
        self._drop(now_ns)
        self._unacked.clear()
        self._wakes_ns = 0
        self.gate.detach(self.subscriber.attach)
        if not self.subscriber.durable:
            self.subscription_gone()

    def subscription_gone(self) -> None:
        """The subscription does not exist any more, unless it has other consumers."""
        self.gate.detach(self.subscriber.operation(OperationKind.CREATE_SUBSCRIPTION))

    # -- permits ------------------------------------------------------------------------------------

    def granted(self, permits: int) -> Handled:
        """The client can take more messages; PASS if its FLOW passes unchanged."""
        if not self.subscriber.is_live:
            # Brokers take none before they have answered; if this one does, their number is unknown.
            self.permits.lose_count()
            return PASS
        self.permits.grant(permits)
        if self.permits.are_withheld:
            return TAKEN
        now = self.permits.take(self._held_bytes)
        if now == permits:
            return PASS
        self._send_flow(now)
        return TAKEN

    @property
    def _held_bytes(self) -> int:
        return self._queue.held_bytes + self._chunks.held_bytes

    def flow(self) -> None:
        """Forward the permits that there is room for."""
        if not self.permits.are_withheld:
            self._send_flow(self.permits.take(self._held_bytes))

    def _send_flow(self, permits: int) -> None:
        while permits > 0:
            flow = pb.Flow(consumer_id=self.subscriber.id, message_permits=min(permits, _MAX_FLOW))
            self._connection.send_up(frame_of(flow))
            permits -= _MAX_FLOW

    # -- acknowledgements ---------------------------------------------------------------------------

    def acknowledging(self, ack: pb.Ack, turn: Turn) -> Work[None]:
        """The client acknowledges messages, in slices if there are many ids."""
        if len(ack.message_id) > _IDS_PER_SLICE:
            yield TURN  # parsing so many took long enough
        yield from self._take_off(self._unacked.acknowledged(ack), turn)

    def redelivering(self, ids: Sequence[pb.MessageIdData], turn: Turn) -> Work[None]:
        """The client requests redelivery of single messages, to any consumer; in slices, too."""
        if not self.watch.acknowledgements:
            return
        if len(ids) > _IDS_PER_SLICE:
            yield TURN
        forget = self._unacked.forget
        yield from self._take_off((forget((each.ledger_id, each.entry_id)) for each in ids), turn)

    def _take_off(self, counts: Iterable[int], turn: Turn) -> Work[None]:
        """Count messages as acknowledged, some ids in each slice, and deliver what waited for that."""
        left = iter(counts)
        while some := list(islice(left, _IDS_PER_SLICE)):
            self._acknowledge(self._current(turn.now_ns), sum(some), turn.now_ns)
            if len(some) == _IDS_PER_SLICE:
                yield TURN
        if self._queue and self.permits.are_withheld:
            self.pump(turn.now_ns)

    def _acknowledge(self, gate: Gate, messages: int, now_ns: int) -> None:
        if messages:
            op = self.subscriber.operation(_ACKNOWLEDGE)
            op.messages = messages
            gate.decide(op, now_ns)
