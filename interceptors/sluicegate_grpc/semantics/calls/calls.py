"""Maps calls to the operations that gates decide."""

from collections.abc import Mapping

from sluicegate.engine.delivery_time import FirstSeen
from sluicegate.engine.gate import Gate, allowed
from sluicegate.engine.wait_queue import Hold
from sluicegate.model import Action, Decision, Method, MethodMap, Operation, OperationKind, Role
from sluicegate.sessions.work import Turn, Until, Work
from sluicegate_grpc.semantics.calls.attach_call import Attaching, lost_place, refused
from sluicegate_grpc.semantics.calls.attachments import Attachments
from sluicegate_grpc.semantics.calls.place import Caller, Id, Place
from sluicegate_grpc.semantics.calls.publishing import (
    UNNAMED,
    UNREAD,
    key_of,
    of_another_topic,
    of_no_topic,
    unknown_id,
)
from sluicegate_grpc.semantics.calls.stream import Stream
from sluicegate_grpc.semantics.content_plan import ReadContents
from sluicegate_grpc.semantics.fields import Values

_PRODUCER = OperationKind.ATTACH_PRODUCER
_CONSUMER = OperationKind.ATTACH_CONSUMER
_PUBLISH = OperationKind.PUBLISH
_DELAY = Action.DELAY
_REWRITE = Action.REWRITE


class Calls:
    """Turns calls into the operations that gates decide; `attachments` holds what results from them.

    :param methods: which method is which operation.
    :param attachments: those of the same engine.
    :param compiled: gates by topic, as far as they are compiled: those for all callers, and those for exempt
        ones. They spare most publishes a call; the others ask `attachments.gate`.
    """

    def __init__(
        self,
        methods: MethodMap,
        attachments: Attachments,
        compiled: tuple[Mapping[str, Gate], Mapping[str, Gate]] = ({}, {}),
    ) -> None:
        self.methods = methods
        self.attachments = attachments
        self.unknown_ids = 0
        """Calls with ids that are unknown here."""
        self._gate = attachments.gate
        self._compiled = compiled
        self._places = attachments.places
        self._producers = self._places.producers
        self._unconfirmed = attachments.unconfirmed
        self._by_attaching = any(method.role is Role.ATTACH_PRODUCER for method in methods.methods.values())
        self._first_seen = FirstSeen()
        self._nameless = 0

    # -- attaching ------------------------------------------------------------------------------------

    def attaching(self, method: Method, values: Values, caller: Caller) -> Attaching:
        """A call that attaches a producer, or a consumer with its subscription: `Attachments.admit` it."""
        is_producer = method.role is Role.ATTACH_PRODUCER
        name = values.producer if is_producer else values.consumer
        if not name:  # without a name, each call counts as another one
            self._nameless += 1
            name = f"unnamed {self._nameless} of {caller.client}"
        key = (values.topic, "" if is_producer else values.subscription, str(name))
        reliable = bool(values.reliable) if is_producer and method.reliable else None
        return self.attachments.begin(_PRODUCER if is_producer else _CONSUMER, key, caller, reliable=reliable)

    # -- publishing -----------------------------------------------------------------------------------

    def publish(
        self,
        method: Method,
        values: Values,
        caller: Caller,
        now_ns: int,
        contents: ReadContents | None = None,
    ) -> tuple[Operation, Decision | None]:
        """Decide a call that publishes.

        :param contents: reads its messages; None if they are not at hand.
        :return: the operation, to be kept only if it is delayed, and None if it may proceed, or with other
            headers (REWRITE); or `UNNAMED` or `UNREAD`.
        """
        # <hot> Runs for every publish.
        broker_id = values.producer if self._by_attaching else (values.topic, values.producer)
        place = self._producers.get(broker_id) if method.producer else None
        if place is None or not place.is_counted:
            attached = self._unattached(place, method, values, caller, now_ns, contents)
            if not isinstance(attached, Place):
                return attached
            place = attached
        if values.topic != place.key[0] and values.topic and method.topic:
            # Brokers use one or the other: a client that could choose could evade its limits.
            return caller.operation(_PUBLISH, place.key), of_another_topic(values)
        place.seen_ns = now_ns
        publishing = place.publishing
        if publishing is None or publishing[0] is not caller:
            self.attachments.used_by(place, caller, now_ns)
            publishing = place.publishing = caller, caller.operation(_PUBLISH, place.key)
        op = publishing[1]
        op.messages = 1
        op.bytes = op.largest = values.payload
        if method.batch:
            op.messages, op.largest = values.messages, values.largest
        gate = self._compiled[caller.exempt].get(op.topic) or self._gate(op.topic, caller.exempt, now_ns)
        decision = _with_contents(gate, op, now_ns, contents) if gate.reads else gate.publish(op, now_ns)
        if decision is not None:
            if decision.action is _DELAY:
                place.publishing = None  # it belongs to the delayed call from here on
            elif decision.action is _REWRITE:
                decision = allowed(decision)
            elif self._unconfirmed:
                self._never_sent(op, caller, now_ns)
        return op, decision

    def wants_name(self, method: Method, values: Values) -> bool:
        """Whether the name of a publish's producer must be read, as its id is unknown."""
        return bool(method.name) and values.producer not in self._producers

    def publish_again(
        self, op: Operation, caller: Caller, now_ns: int, contents: ReadContents | None = None
    ) -> Decision | None:
        """Decide a delayed publish again. Parameters as for `publish`."""
        gate = self._compiled[caller.exempt].get(op.topic) or self._gate(op.topic, caller.exempt, now_ns)
        return allowed(_with_contents(gate, op, now_ns, contents) if gate.reads else gate.publish(op, now_ns))

    def hold(
        self,
        op: Operation,
        delay: Decision,
        caller: Caller,
        contents: ReadContents,
        turn: Turn,
        hold: Hold,
    ) -> Work[Decision | None]:
        """Hold a delayed publish until it may proceed; it keeps its position in the queue of those that wait.

        :param delay: what delays it.
        :param contents: reads its messages, which are not kept in memory while it waits.
        :param hold: for how long.
        :return: None if it may, or with other headers (REWRITE); else why it may not: nothing is charged
            then, nor if the work is closed.
        """
        decision: Decision | None = delay
        try:
            while decision is not None and (wait_ns := hold.wait_ns(decision, turn.now_ns)):
                yield Until(turn.now_ns + wait_ns)
                decision = self.publish_again(op, caller, turn.now_ns, contents)
            return decision
        finally:
            if decision is not None and decision.action is not _REWRITE:
                self.abandon(op, caller, turn.now_ns)

    def abandon(self, op: Operation, caller: Caller, now_ns: int) -> None:
        """Cancel a delayed publish; nothing is charged."""
        self._gate(op.topic, caller.exempt, now_ns).abandon(op, now_ns)
        if self._unconfirmed:
            self._never_sent(op, caller, now_ns)

    def _never_sent(self, op: Operation, caller: Caller, now_ns: int) -> None:
        """A publish was not forwarded, so it cannot confirm its producer."""
        place = self._places.find(_PRODUCER, (op.topic, "", op.producer))
        if place is not None:
            self.attachments.drop_claims(place, caller, now_ns)

    def _unattached(
        self,
        place: Place | None,
        method: Method,
        values: Values,
        caller: Caller,
        now_ns: int,
        contents: ReadContents | None,
    ) -> Place | tuple[Operation, Decision | None]:
        """A publish by a producer that does not count yet: it attaches, if the topic has room.

        It may have attached before this process started: then the topic and
        name that it claims count until the broker responds.
        """
        broker_id = self._id_or_connection(method, values, caller)
        if method.by_connection:
            place = self._producers.get(broker_id)
            if place is not None and place.is_counted:
                return place
        key = place.key if place is not None else key_of(method, values, caller, has_ids=self._by_attaching)
        if key is None:
            return self._uncounted(method, values, caller, now_ns, contents)
        comes_back = self._by_attaching and not method.by_connection
        attaching = self.attachments.begin(_PRODUCER, key, caller, known=comes_back)
        decision = self.attachments.decide(attaching, now_ns)
        if decision is None and attaching.place is not None:
            self._places.name(attaching.place, broker_id)
            if place is None and self._by_attaching:
                self._unconfirmed[broker_id] = attaching
            else:
                self.attachments.attached(attaching, broker_id, now_ns)
            return attaching.place
        if decision is not None and attaching.place is not None:
            # The operation attaches: decided again as a publish, it would not be counted.
            decision = lost_place(decision) if comes_back else refused(decision)
        return attaching.attach, decision

    def unconfirmed_by(self, method: Method, values: Values, caller: Caller) -> Id | None:
        """The id of an unconfirmed producer whose publish was forwarded."""
        broker_id = self._id_or_connection(method, values, caller) if self._unconfirmed else None
        return broker_id if broker_id in self._unconfirmed else None

    def _producer_id(self, values: Values) -> Id:
        """The key of a producer: its id, or topic and name if it was given none."""
        return values.producer if self._by_attaching else (values.topic, values.producer)

    def _id_or_connection(self, method: Method, values: Values, caller: Caller) -> Id:
        """The key of a producer that may be a connection."""
        return (
            (values.topic, f"connection {caller.client}")
            if method.by_connection
            else self._producer_id(values)
        )

    def _uncounted(
        self, method: Method, values: Values, caller: Caller, now_ns: int, contents: ReadContents | None
    ) -> tuple[Operation, Decision | None]:
        """A publish that counts for no producer: its id is unknown and has no topic, or is missing."""
        op = Operation(_PUBLISH, values.topic if method.topic else "", caller.principal, caller.client)
        if not op.topic:
            self.unknown_ids += not method.by_connection
            return op, of_no_topic() if method.by_connection else unknown_id("producer", values.producer)
        if values.producer:
            return op, UNNAMED
        op.messages, op.bytes, op.largest = values.messages, values.payload, values.largest or values.payload
        return op, self.publish_again(op, caller, now_ns, contents)

    # -- dispatch -------------------------------------------------------------------------------------

    def dispatching(self, method: Method, values: Values, caller: Caller, now_ns: int) -> Stream | None:
        """Open a stream of deliveries.

        :return: None if its consumer is unknown, and messages do not tell whose they are; else see
            `Stream.admit` and `Stream.unknown`, and close it in any case.
        """
        if method.topic:
            attaching = self.attaching(method, values, caller)
            return Stream(self.attachments, self._first_seen, attaching.place, caller, attaching, whole=True)
        place = self._places.consumers.get(values.consumer)
        if place is None:
            self.unknown_ids += 1
            if not method.message_topic:
                return None
            return Stream(
                self.attachments, self._first_seen, None, caller, None, whole=False, unknown=values.consumer
            )
        if place.is_counted:
            self.attachments.used(place, caller, now_ns)
            return Stream(self.attachments, self._first_seen, place, caller, None, whole=False)
        attaching = self.attachments.begin(_CONSUMER, place.key, caller, known=True)
        return Stream(self.attachments, self._first_seen, place, caller, attaching, whole=False)

    # -- acknowledgements -----------------------------------------------------------------------------

    def acknowledge(self, method: Method, values: Values, caller: Caller, now_ns: int) -> None:
        """A consumer acknowledges a message, positively or negatively."""
        topic, subscription = values.topic, values.subscription
        place = self._places.consumers.get(values.consumer) if method.consumer else None
        if place is not None:
            self.attachments.used(place, caller, now_ns)
            topic, subscription, _ = place.key
        self.attachments.unacked.acknowledged((topic, subscription), values.position, now_ns)

    # -- staying and leaving --------------------------------------------------------------------------

    def touch(self, attachment: Id, caller: Caller, now_ns: int) -> None:
        """A call shows that a producer or consumer is alive."""
        for places in (self._producers, self._places.consumers):
            place = places.get(attachment)
            if place is not None and place.is_counted:
                self.attachments.used(place, caller, now_ns)

    def detach(self, method: Method, values: Values, caller: Caller, now_ns: int) -> None:
        """A producer or consumer has detached, and the broker confirmed it."""
        if method.attachment or method.producer:
            broker_id = self._producer_id(values) if method.producer else values.attachment
            self.attachments.leave(self._producers.get(broker_id), now_ns)
        if method.attachment or method.consumer:
            broker_id = values.consumer if method.consumer else values.attachment
            self.attachments.leave(self._places.consumers.get(broker_id), now_ns)


def _with_contents(gate: Gate, op: Operation, now_ns: int, contents: ReadContents | None) -> Decision | None:
    """Decide a publish whose messages policies read."""
    if contents is None:
        return UNREAD
    read = contents(gate.reads)
    op.contents, op.unreadable = read.messages, read.unreadable
    try:
        return gate.publish(op, now_ns)
    finally:
        op.contents, op.unreadable = (), ""
