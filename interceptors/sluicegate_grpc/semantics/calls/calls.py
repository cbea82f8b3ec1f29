"""Maps calls to operations and tracks attachments; see the package."""

from collections.abc import Callable, Iterable
from itertools import islice

from sluicegate.engine.delivery_time import FirstSeen
from sluicegate.engine.gate import Gate
from sluicegate.model import Action, Decision, Method, MethodMap, Operation, OperationKind, Role
from sluicegate.sessions.admission import allowed
from sluicegate_grpc.semantics.calls.attach_call import Attaching, lost_place, no_room, refused
from sluicegate_grpc.semantics.calls.attachments import Caller, Id, Key, Part, Place, Places
from sluicegate_grpc.semantics.calls.owners import Owners
from sluicegate_grpc.semantics.calls.publishing import (
    UNNAMED,
    Unconfirmed,
    key_of,
    of_another_topic,
    of_no_topic,
    unknown_id,
)
from sluicegate_grpc.semantics.calls.stream import Stream
from sluicegate_grpc.semantics.calls.topics import Topics
from sluicegate_grpc.semantics.calls.unacked_positions import Unacked
from sluicegate_grpc.semantics.fields import Values

_PRODUCER = OperationKind.ATTACH_PRODUCER
_CONSUMER = OperationKind.ATTACH_CONSUMER
_CREATE = OperationKind.CREATE_SUBSCRIPTION
_PUBLISH = OperationKind.PUBLISH
_DELAY = Action.DELAY


class Calls:
    """Turns calls into the operations that gates decide, and tracks the resulting attachments.

    :param methods: which method is which operation.
    :param gates: `(topic, exempt, now_ns) -> Gate`, asked for each call.
    :param ghost_release_ns: after so long without a stream or a call, a producer or consumer does not count.
    :param max_attachments: bound on the producers and consumers that are kept.
    :param list_valid_ns: how long a list of a topic's subscriptions stays valid (`Attaching.must_list`);
        None if there are no lists, so that those count which this engine has admitted.
    """

    def __init__(
        self,
        methods: MethodMap,
        gates: Callable[[str, bool, int], Gate],
        ghost_release_ns: int,
        max_attachments: int = 100_000,
        list_valid_ns: int | None = None,
    ) -> None:
        self.methods = methods
        self.gate = gates
        """`(topic, exempt, now_ns)`: the gate of a topic."""
        self.ghosts_released = 0
        self.unknown_ids = 0
        """Calls with ids that are unknown here."""
        self.unconfirmed = Unconfirmed()
        """Producers whose id the broker has not confirmed; see `publish_answered`."""
        self._ghost_release_ns = ghost_release_ns
        self._places = Places(max_attachments)
        self._producers = self._places.producers
        self._by_attaching = any(method.role is Role.ATTACH_PRODUCER for method in methods.methods.values())
        self.topics = Topics(list_valid_ns)
        self.unacked = Unacked(gates)
        self.first_seen = FirstSeen()
        self.owners = Owners(gates, self._places, self.topics, self._release)
        self._look_ns = 0
        self._nameless = 0

    def __len__(self) -> int:
        """Producers and consumers that are kept, those that no longer count included."""
        return len(self._places)

    # -- attaching ------------------------------------------------------------------------------------

    def attach(self, method: Method, values: Values, caller: Caller, now_ns: int) -> Attaching:
        """Decide a call that attaches a producer, or a consumer with its subscription.

        :return: its `decision` and `must_list` say what to do.
        """
        is_producer = method.role is Role.ATTACH_PRODUCER
        name = values.producer if is_producer else values.consumer
        if not name:  # without a name, each call counts as another one
            self._nameless += 1
            name = f"unnamed {self._nameless} of {caller.client}"
        key = (values.topic, "" if is_producer else values.subscription, str(name))
        attaching = self._attaching(_PRODUCER if is_producer else _CONSUMER, key, caller)
        if is_producer and method.reliable:
            attaching.reliable = bool(values.reliable)
        self.again(attaching, now_ns)
        return attaching

    def _attaching(self, kind: OperationKind, key: Key, caller: Caller, known: bool = False) -> Attaching:
        place = self._places.get(kind, key)
        create = None
        if kind is _CONSUMER and key[1]:
            create = Operation(_CREATE, key[0], caller.principal, caller.client, subscription=key[1])
        if place is not None:
            place.begun(caller)
        return Attaching(place, caller, caller.operation(kind, key), create, known=known)

    def again(self, attaching: Attaching, now_ns: int) -> Decision | None:
        """Decide a call again that was delayed, or whose topic's subscriptions were listed.

        :return: its new `decision`.
        """
        place = attaching.place
        if place is None:
            attaching.ended = True
            attaching.decision = no_room(attaching.topic, self._places.limit)
            return attaching.decision
        gate = self.gate(attaching.topic, attaching.caller.exempt, now_ns)
        topics = self.topics
        if topics.are_listed:
            if attaching.lists_first(gate, topics.listings, now_ns):
                return None
        elif attaching.create is not None and gate.asks(_CREATE):
            gate.state.subscriptions_known = True
        decision = attaching.decide(gate, now_ns)
        attaching.decision = decision
        if decision is None:
            self._take(attaching, place, now_ns)
        elif decision.action is not _DELAY:
            self.failed(attaching, now_ns)
            if attaching.known:
                attaching.decision = lost_place(decision)
        return attaching.decision

    def listed(self, topic: str, names: Iterable[str] | None, asked_ns: int, now_ns: int) -> None:
        """A topic's subscriptions were listed.

        :param names: all of them; None if the broker could not list them, which keeps the last list.
        :param asked_ns: when the list was requested; subscriptions admitted since are added.
        """
        self.topics.listings.answered(topic, now_ns)
        if names is not None:
            self.gate(topic, False, now_ns).state.learn_subscriptions(names, asked_ns)

    def _take(self, attaching: Attaching, place: Place, now_ns: int) -> None:
        caller = attaching.caller
        attaching.taken = True
        place.used_by(caller, Part.ATTACHING)
        place.refs.setdefault(caller.client, attaching.attach)
        place.seen_ns = now_ns
        self._places.taken(place)

    def attached(self, attaching: Attaching, attachment: Id | None, now_ns: int) -> None:
        """The broker has accepted the attachment.

        :param attachment: the broker's id; None if it has none.
        """
        place = attaching.place
        if place is None or attaching.ended:
            return
        attaching.end()
        attaching.confirmed(self.gate(attaching.topic, attaching.caller.exempt, now_ns))
        place.settled = True
        if attaching.caller in place.callers:
            place.callers[attaching.caller] = Part.ATTACHED
        place.seen_ns = now_ns
        if attachment is not None:
            self._named(place, attachment, now_ns)
        if attaching.reliable is not None:
            self.topics.learn_reliable(attaching.topic, attaching.reliable)

    def _named(self, place: Place, attachment: Id, now_ns: int) -> None:
        claim = self.unconfirmed.pop(attachment, None)
        if claim is not None:
            claim.end()
        same = self._places.name(place, attachment)
        if same is not None and same.topic == place.topic:
            self._leave(same, now_ns)  # it counted by its id while its name was unknown

    def failed(self, attaching: Attaching, now_ns: int, *, is_known: bool = True) -> None:
        """It is not attached: the broker refused it, or the call ended early. Idempotent.

        :param is_known: False if the broker has the call and its outcome is unknown.
        """
        place = attaching.place
        if place is None or attaching.ended:
            return
        attaching.end()
        gate = self.gate(attaching.topic, attaching.caller.exempt, now_ns)
        caller = attaching.caller
        part = place.callers.get(caller)
        has_gone = part is None and attaching.taken
        if caller not in place.pending and (part is Part.ATTACHING or has_gone):
            ref = place.withdrawn(caller)
            if ref is not None:
                gate.detach(ref)
        if not place.pending and not place.settled:
            self._release(place, now_ns)
        if attaching.created and not is_known and self.topics.are_listed:
            attaching.confirmed(gate)  # it may exist: the next list shows it
            self.topics.listings.outdated(attaching.topic)
        attaching.withdraw(gate, now_ns)

    # -- publishing -----------------------------------------------------------------------------------

    def publish(
        self, method: Method, values: Values, caller: Caller, now_ns: int
    ) -> tuple[Operation, Decision | None]:
        """Decide a call that publishes.

        :return: the operation, to be kept only if it is delayed, and None if it may proceed; or `UNNAMED`.
        """
        # <hot> Runs for every publish.
        broker_id = values.producer if self._by_attaching else (values.topic, values.producer)
        place = self._producers.get(broker_id) if method.producer else None
        if place is None or not place.held:
            found = self._unattached(place, method, values, caller, now_ns)
            if not isinstance(found, Place):
                return found
            place = found
        if values.topic != place.key[0] and values.topic and method.topic:
            # Brokers use one or the other: a client that could choose could evade its limits.
            return caller.operation(_PUBLISH, place.key), of_another_topic(values)
        place.seen_ns = now_ns
        op = place.publishing
        if op is None or place.publisher is not caller:
            place.used_by(caller)
            op = place.publishing = caller.operation(_PUBLISH, place.key)
            place.publisher = caller
        op.messages = 1
        op.bytes = op.largest = values.payload
        if method.batch:
            op.messages, op.largest = values.messages, values.largest
        decision = self.gate(op.topic, caller.exempt, now_ns).publish(op, now_ns)
        if decision is not None:
            if decision.action is _DELAY:
                place.publishing = None  # it belongs to the delayed call from here on
            elif (decision := allowed(decision)) is not None and self.unconfirmed:
                self._never_sent(op, caller, now_ns)
        return op, decision

    def wants_name(self, method: Method, values: Values) -> bool:
        """Whether the name of a publish's producer must be read, as its id is unknown."""
        return bool(method.name) and values.producer not in self._producers

    def publish_again(self, op: Operation, caller: Caller, now_ns: int) -> Decision | None:
        """Decide a delayed publish again."""
        return allowed(self.gate(op.topic, caller.exempt, now_ns).publish(op, now_ns))

    def abandon(self, op: Operation, caller: Caller, now_ns: int) -> None:
        """Cancel a delayed publish; nothing is charged."""
        self.gate(op.topic, caller.exempt, now_ns).abandon(op, now_ns)
        if self.unconfirmed:
            self._never_sent(op, caller, now_ns)

    def _never_sent(self, op: Operation, caller: Caller, now_ns: int) -> None:
        """A publish was not forwarded, so it cannot confirm its producer."""
        place = self._places.find(_PRODUCER, (op.topic, "", op.producer))
        if place is not None:
            self._drop_unconfirmed(place, caller, now_ns)

    def _drop_unconfirmed(self, place: Place, caller: Caller, now_ns: int) -> None:
        """Drop a caller's unconfirmed claim on a place."""
        for broker_id, attaching in self.unconfirmed.of(place):
            if attaching.caller is caller:
                self.publish_answered(broker_id, now_ns, is_known=False)

    def _unattached(
        self, place: Place | None, method: Method, values: Values, caller: Caller, now_ns: int
    ) -> Place | tuple[Operation, Decision | None]:
        """A publish by a producer that does not count yet: it attaches, if the topic has room.

        It may have attached before this process started: then the topic and
        name that it claims count until the broker responds.
        """
        broker_id = self._id_or_connection(method, values, caller)
        if method.by_connection:
            place = self._producers.get(broker_id)
            if place is not None and place.held:
                return place
        key = place.key if place is not None else key_of(method, values, caller, has_ids=self._by_attaching)
        if key is None:
            return self._uncounted(method, values, caller, now_ns)
        comes_back = self._by_attaching and not method.by_connection
        attaching = self._attaching(_PRODUCER, key, caller, known=comes_back)
        decision = self.again(attaching, now_ns)
        if decision is None and attaching.place is not None:
            self._places.name(attaching.place, broker_id)
            if place is None and self._by_attaching:
                self.unconfirmed[broker_id] = attaching
            else:
                self.attached(attaching, broker_id, now_ns)
            return attaching.place
        self.failed(attaching, now_ns)
        if decision is not None and decision.action is _DELAY:
            # The operation attaches: decided again as a publish, it would not be counted.
            decision = lost_place(decision) if comes_back else refused(decision)
        return attaching.attach, decision

    def unconfirmed_by(self, method: Method, values: Values, caller: Caller) -> Id | None:
        """The id of an unconfirmed producer whose publish was forwarded."""
        broker_id = self._id_or_connection(method, values, caller) if self.unconfirmed else None
        return broker_id if broker_id in self.unconfirmed else None

    def publish_answered(self, producer: Id, now_ns: int, *, is_known: bool) -> None:
        """The broker has answered the message of an unconfirmed producer.

        :param is_known: False if it rejected the message: then the claim may be false, and the producer
            is released unless others confirm it.
        """
        attaching = self.unconfirmed.pop(producer, None)
        if attaching is None:
            return
        if is_known:
            self.attached(attaching, producer, now_ns)
        elif attaching.place is not None:
            self._places.unname(attaching.place, producer)
            self.failed(attaching, now_ns)

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
        self, method: Method, values: Values, caller: Caller, now_ns: int
    ) -> tuple[Operation, Decision | None]:
        """A publish that counts for no producer: its id is unknown and has no topic, or is missing."""
        op = Operation(_PUBLISH, values.topic if method.topic else "", caller.principal, caller.client)
        if not op.topic:
            self.unknown_ids += not method.by_connection
            return op, of_no_topic() if method.by_connection else unknown_id("producer", values.producer)
        if values.producer:
            return op, UNNAMED
        op.messages, op.bytes, op.largest = values.messages, values.payload, values.largest or values.payload
        return op, self.publish_again(op, caller, now_ns)

    # -- dispatch -------------------------------------------------------------------------------------

    def dispatching(self, method: Method, values: Values, caller: Caller, now_ns: int) -> Stream | None:
        """Open a stream of deliveries.

        :return: None if its consumer is unknown; else see `Stream.decision`, and close it in any case.
        """
        if method.topic:
            attaching = self.attach(method, values, caller, now_ns)
            return Stream(self, attaching.place, caller, attaching, whole=True)
        place = self._places.consumers.get(values.consumer)
        if place is None:
            self.unknown_ids += 1
            return None
        if place.held:
            self._used(place, caller, now_ns)
            return Stream(self, place, caller, None, whole=False)
        attaching = self._attaching(_CONSUMER, place.key, caller, known=True)
        self.again(attaching, now_ns)
        return Stream(self, place, caller, attaching, whole=False)

    def opened(self, stream: Stream, now_ns: int) -> None:
        """A stream was admitted and is forwarded."""
        if stream.attaching is not None:
            self.attached(stream.attaching, None, now_ns)

    def stream_ended(self, place: Place, now_ns: int, *, has_left: bool) -> None:
        """A stream of a consumer's has ended; called by the stream.

        :param has_left: True to release it, if it was the last.
        """
        place.seen_ns = now_ns
        if has_left and not place.in_use:
            self._release(place, now_ns)

    # -- acknowledgements -----------------------------------------------------------------------------

    def acknowledge(self, method: Method, values: Values, caller: Caller, now_ns: int) -> None:
        """A consumer acknowledges a message, positively or negatively."""
        topic, subscription = values.topic, values.subscription
        place = self._places.consumers.get(values.consumer) if method.consumer else None
        if place is not None:
            self._used(place, caller, now_ns)
            topic, subscription, _ = place.key
        self.unacked.acknowledged((topic, subscription), values.position, now_ns)

    # -- staying and leaving --------------------------------------------------------------------------

    def touch(self, attachment: Id, caller: Caller, now_ns: int) -> None:
        """A call shows that a producer or consumer is alive."""
        for places in (self._producers, self._places.consumers):
            place = places.get(attachment)
            if place is not None and place.held:
                self._used(place, caller, now_ns)

    def detach(self, method: Method, values: Values, caller: Caller, now_ns: int) -> None:
        """A producer or consumer has detached, and the broker confirmed it."""
        if method.attachment or method.producer:
            broker_id = self._producer_id(values) if method.producer else values.attachment
            self._leave(self._producers.get(broker_id), now_ns)
        if method.attachment or method.consumer:
            consumers = self._places.consumers
            self._leave(consumers.get(values.consumer if method.consumer else values.attachment), now_ns)

    def caller_closed(self, caller: Caller, now_ns: int, most: int | None = None) -> None:
        """A connection was closed: release a bounded number of the places that only it used."""
        for place in tuple(islice(caller.places, most)):
            self._drop_unconfirmed(place, caller, now_ns)
            place.left_by(caller)
            if not place.callers and not place.in_use:
                self._release(place, now_ns)

    def release_ghosts(self, now_ns: int) -> int:
        """Release clients that were silent for too long; call it once a second.

        :return: how many.
        """
        if now_ns < self._look_ns:
            return 0
        ghosts, next_ns = self._places.silent_since(now_ns - self._ghost_release_ns, now_ns)
        for place in ghosts:
            self._release(place, now_ns)
        # Any client that is active from now on is due later than the next one.
        self._look_ns = next_ns + self._ghost_release_ns
        self.ghosts_released += len(ghosts)
        return len(ghosts)

    def _used(self, place: Place, caller: Caller, now_ns: int) -> None:
        place.seen_ns = now_ns
        if caller not in place.callers:
            place.used_by(caller)

    def _leave(self, place: Place | None, now_ns: int) -> None:
        if place is not None and place.held:
            self._release(place, now_ns)

    def _release(self, place: Place, now_ns: int) -> None:
        gate = self.gate(place.topic, False, now_ns)
        for op in place.refs.values():
            gate.detach(op)
        for broker_id, attaching in self.unconfirmed.of(place):
            self.unconfirmed.pop(broker_id)
            attaching.end()
        self.unacked.forget(place)
        self._places.released(place)
