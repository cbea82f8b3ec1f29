"""One open stream that delivers messages to a consumer."""

from collections.abc import Callable, Hashable

from sluicegate.engine.delivery_time import DelayRule, FirstSeen, due_ms
from sluicegate.engine.gate import Gate
from sluicegate.engine.wait_queue import Hold
from sluicegate.model import Action, Decision, Operation, OperationKind
from sluicegate.sessions.work import Turn, Until, Work
from sluicegate_grpc.semantics.calls.attach_call import Attaching
from sluicegate_grpc.semantics.calls.attachments import Attachments
from sluicegate_grpc.semantics.calls.place import Caller, Id, Place
from sluicegate_grpc.semantics.fields import Values

_PLACE_WAIT_NS = 1_000_000_000
"""How often a consumer with an unknown id tries to attach."""


class Stream:
    """The delivery of messages to one consumer: each is decided by the gate as a DISPATCH.

    Several streams may serve one consumer. One that lives only as long as its stream detaches with it.

    :param attachments: where its consumer counts.
    :param first_seen: when messages arrived first.
    :param place: the consumer; None if there is no room for one more.
    :param caller: opened it.
    :param attaching: if the consumer must attach first.
    :param whole: True if the consumer is there for as long as this stream, and no longer.
    :param unknown: the id of a consumer that is not known: its first message tells whose it is (`identify`).
    """

    __slots__ = (
        "_attachments",
        "_first_seen",
        "_place",
        "_tell",
        "_whole",
        "attaching",
        "caller",
        "op",
        "open",
        "unknown",
    )

    def __init__(
        self,
        attachments: Attachments,
        first_seen: FirstSeen,
        place: Place | None,
        caller: Caller,
        attaching: Attaching | None,
        *,
        whole: bool,
        unknown: Id | None = None,
    ) -> None:
        self._attachments = attachments
        self._first_seen = first_seen
        self._place = place
        self._whole = whole
        self.caller = caller
        self.attaching = attaching
        """Must go through the gate before the stream does, if it is not None: see `admit`."""
        self._tell: Callable[[], None] | None = None
        self.unknown = unknown
        """The consumer's id until `identify` has attached it; no message may be decided before."""
        self.op: Operation = caller.operation(OperationKind.DISPATCH, ("", "", ""))
        """The operation of every message."""
        self.open = True
        if place is not None:
            self._serve(place)

    @property
    def topic(self) -> str:
        """The topic of its consumer; empty while that is not known."""
        return self.op.topic if self.attaching is None else self.attaching.topic

    def _serve(self, place: Place) -> None:
        self._place = place
        self.op = self.caller.operation(OperationKind.DISPATCH, place.key)
        place.opened(self, self._tell)

    def admit(self, turn: Turn, hold: Hold, question: Hashable = None) -> Work[Decision | None]:
        """Let the stream open once its consumer may attach. Parameters and result as for `Attachments.admit`.

        The stream is closed if it may not open, or if the work is closed.
        """
        decision: Decision | None = None
        is_open = False
        try:
            if self.attaching is not None:
                decision = yield from self._attachments.admit(self.attaching, turn, hold, question)
                if decision is None:
                    self._attachments.attached(self.attaching, None, turn.now_ns)
            is_open = decision is None
            return decision
        finally:
            if not is_open:
                self.close(turn.now_ns)

    def identify(self, values: Values, turn: Turn, longest_ns: int) -> Work[Decision | None]:
        """Attach a consumer with an unknown id, which the broker has honoured by delivering a message.

        Its name stays unknown, so it counts by its id and for as long as its streams are open.

        :param values: topic and subscription, which the message names.
        :param longest_ns: how long it tries again where it is refused: the broker has let it attach.
        :return: None once it is attached, else why the stream must end.
        """
        broker_id, attachments = self.unknown, self._attachments
        until_ns = turn.now_ns + longest_ns
        while broker_id is not None:
            place = attachments.places.consumers.get(broker_id)
            if place is not None and place.is_counted:
                attachments.used(place, self.caller, turn.now_ns)
                self._identified(place)
                return None
            attachments.gate(values.topic, False, turn.now_ns).state.confirm(values.subscription)
            nameless = (values.topic, values.subscription, f"id {broker_id}")
            attaching = attachments.begin(
                OperationKind.ATTACH_CONSUMER,
                nameless if place is None else place.key,
                self.caller,
                known=True,
                is_nameless=place is None,
            )
            decision = yield from attachments.admit(attaching, turn, Hold(until_ns - turn.now_ns))
            if decision is None and attaching.place is not None:
                attachments.attached(attaching, broker_id, turn.now_ns)
                self._identified(attaching.place)
                return None
            if turn.now_ns >= until_ns:
                return decision
            yield Until(min(turn.now_ns + _PLACE_WAIT_NS, until_ns))
        return None

    def _identified(self, place: Place) -> None:
        self.unknown = None
        self._serve(place)

    def gate(self, now_ns: int) -> Gate:
        """The topic's gate; not to be kept over a wait."""
        op = self.op
        op.reliable = self._attachments.topics.is_reliable(op.topic)
        return self._attachments.gate(op.topic, self.caller.exempt, now_ns)

    def counts_unacked(self, gate: Gate) -> bool:
        """Whether messages count as unacknowledged until their consumer acknowledges them."""
        return self.open and self.op.reliable and gate.asks(OperationKind.ACKNOWLEDGE)

    def early_ms(self, rule: DelayRule, values: Values | None, seen_ms: int, wall_ms: int) -> int:
        """How long before its delivery time a message is; 0 or less if it is due.

        :param values: what was read of it; None if it cannot be read.
        :param seen_ms: when it arrived, by the wall clock; one that comes again counts from the first time.
        :param wall_ms: the wall clock now.
        """
        published_ms = -1
        if values is not None:
            published_ms = values.published or -1
            position = values.position
            if position and (published_ms < 0 or rule.clock == "receive_time"):
                number = position if isinstance(position, int) else hash(position)
                seen_ms = self._first_seen.ms((self.op.topic, number, 0), seen_ms)
        return due_ms(rule, published_ms, seen_ms) - wall_ms

    def decide(self, gate: Gate, values: Values | None, size: int, now_ns: int) -> Decision | None:
        """Decide a message, and charge it if it may be sent.

        :param gate: the topic's, now.
        :param values: what was read of it; None if it cannot be read.
        :param size: its bytes, which count as its payload then.
        :return: None if it may be sent.
        """
        # <hot> Runs for every message.
        op = self.op
        op.messages = 1
        op.bytes = op.largest = size if values is None else values.payload
        place = self._place
        if values is None or place is None or not self.counts_unacked(gate):
            decision = gate.dispatch(op, now_ns)
            return None if decision is None or decision.action is Action.REWRITE else decision
        # One that was delivered before no longer counts from then.
        self._attachments.unacked.acknowledged((op.topic, op.subscription), values.position, now_ns)
        decision = gate.dispatch(op, now_ns)
        if decision is not None and decision.action is not Action.REWRITE:
            return decision
        self._attachments.unacked.delivered(place, values.position, now_ns)
        return None

    def on_acknowledged(self, tell: Callable[[], None]) -> None:
        """Have it told, until the stream is closed, whenever its consumer has acknowledged something."""
        self._tell = tell
        if self._place is not None:
            self._place.outstanding.on_acknowledged[self] = tell

    def close(self, now_ns: int, *, has_left: bool = True) -> None:
        """The stream has ended; idempotent.

        :param has_left: False if the server ended it in order; the consumer then still counts as attached.
        """
        if not self.open:
            return
        self.open = False
        if self.attaching is not None:
            self._attachments.failed(self.attaching, now_ns)
        place = self._place
        if place is None:
            return
        place.closed(self)
        gate = self._attachments.gate(self.op.topic, self.caller.exempt, now_ns)
        gate.abandon(self.op, now_ns)
        self._attachments.stream_ended(place, now_ns, has_left=has_left or self._whole)
