"""Counts producers and consumers, each from the call that attaches it until it leaves."""

from collections.abc import Callable, Hashable, Iterable
from functools import partial
from itertools import islice

from sluicegate.engine.gate import Gate
from sluicegate.engine.wait_queue import Hold
from sluicegate.model import Action, Decision, Operation, OperationKind
from sluicegate.sessions.admission import taking
from sluicegate.sessions.work import Turn, Work
from sluicegate_grpc.semantics.calls.attach_call import Attaching, lost_place, no_room
from sluicegate_grpc.semantics.calls.owners import Owners
from sluicegate_grpc.semantics.calls.place import Caller, Id, Key, Part, Place, Places
from sluicegate_grpc.semantics.calls.publishing import Unconfirmed
from sluicegate_grpc.semantics.calls.topics import Topics
from sluicegate_grpc.semantics.calls.unacked_positions import Unacked

_CONSUMER = OperationKind.ATTACH_CONSUMER
_CREATE = OperationKind.CREATE_SUBSCRIPTION
_OF_ONE_GATEWAY = ("unnamed ", "connection ", "id ")
"""How names begin that clients did not choose."""


class Attachments:
    """The producers and consumers of one engine's calls.

    :param gates: `(topic, exempt, now_ns) -> Gate`, asked for each call.
    :param ghost_release_ns: after so long without a stream or a call, a producer or consumer does not count.
    :param limit: bound on the producers and consumers that are kept.
    :param most_callers: bound on the callers of one place: of more, the oldest leaves it. None where each
        caller is closed (`caller_closed`).
    :param list_valid_ns: how long a list of a topic's subscriptions stays valid; None if there are no lists,
        so that those count which this engine has admitted.
    """

    def __init__(
        self,
        gates: Callable[[str, bool, int], Gate],
        ghost_release_ns: int,
        limit: int = 100_000,
        list_valid_ns: int | None = None,
        most_callers: int | None = None,
    ) -> None:
        self.gate = gates
        """`(topic, exempt, now_ns)`: the gate of a topic."""
        self.places = Places(limit)
        self.topics = Topics(list_valid_ns)
        self.unacked = Unacked(gates)
        self.unconfirmed = Unconfirmed()
        """Producers whose id the broker has not confirmed; see `claim_resolved`."""
        self.owners = Owners(gates, self.places, self.topics, self.release)
        self.ghosts_released = 0
        self._ghost_release_ns = ghost_release_ns
        self._most_callers = most_callers
        self._look_ns = 0

    def __len__(self) -> int:
        """Producers and consumers that are kept, those that no longer count included."""
        return len(self.places)

    def begin(
        self,
        kind: OperationKind,
        key: Key,
        caller: Caller,
        *,
        known: bool = False,
        reliable: bool | None = None,
        is_nameless: bool = False,
    ) -> Attaching:
        """A call attaches a producer or consumer: `admit` or `decide` it. Parameters as for `Attaching`.

        :param is_nameless: as for `Place`.
        """
        place = self.places.get(kind, key, is_nameless=is_nameless)
        create = None
        if kind is _CONSUMER and key[1]:
            create = Operation(_CREATE, key[0], caller.principal, caller.client, subscription=key[1])
        if place is not None:
            place.begun(caller)
        attach = caller.operation(kind, key)
        attach.roams = not (is_nameless or key[2].startswith(_OF_ONE_GATEWAY))
        return Attaching(place, caller, attach, create, known=known, reliable=reliable)

    def admit(
        self, attaching: Attaching, turn: Turn, hold: Hold, question: Hashable = None
    ) -> Work[Decision | None]:
        """Let a producer or consumer attach as soon as the gate admits it.

        :param hold: how long it may wait.
        :param question: has someone list the topic's subscriptions; None where there are no lists.
        :return: None if it may go on to the broker; otherwise it is given up, as it is if the work is closed.
        """
        place = attaching.place
        if place is None:
            return no_room(attaching.topic, self.places.limit)
        is_taken = False
        try:
            decision = yield from taking(
                attaching,
                turn,
                hold,
                partial(self._gate_of, attaching),
                attaching.decide,
                self.topics.listings,
                question,
            )
            if decision is None:
                is_taken = True
                self._take(attaching, place, turn.now_ns)
            elif attaching.known and decision.action is not Action.DELAY:
                return lost_place(decision)
            return decision
        finally:
            if not is_taken:
                self.failed(attaching, turn.now_ns)

    def decide(self, attaching: Attaching, now_ns: int) -> Decision | None:
        """Decide a call that cannot wait; unless it returns None, it is given up."""
        place = attaching.place
        if place is None:
            return no_room(attaching.topic, self.places.limit)
        decision = attaching.decide(self._gate_of(attaching, now_ns), now_ns)
        if decision is None:
            self._take(attaching, place, now_ns)
        else:
            self.failed(attaching, now_ns)
        return decision

    def _gate_of(self, attaching: Attaching, now_ns: int) -> Gate:
        gate = self.gate(attaching.topic, attaching.caller.exempt, now_ns)
        if attaching.create is not None and not self.topics.are_listed and gate.asks(_CREATE):
            gate.state.subscriptions_known = True
        return gate

    def listed(self, topic: str, names: Iterable[str] | None, asked_ns: int, now_ns: int) -> None:
        """A topic's subscriptions were listed.

        :param names: all of them; None if the broker could not list them, which keeps the last list.
        :param asked_ns: when the list was requested; subscriptions admitted since are added.
        """
        self.topics.listings.answered(topic, now_ns)
        if names is not None:
            self.gate(topic, False, now_ns).state.learn_subscriptions(names, asked_ns)

    def _take(self, attaching: Attaching, place: Place, now_ns: int) -> None:
        self.used_by(place, attaching.caller, now_ns, Part.ATTACHING)
        attaching.take(place, now_ns)
        self.places.taken(place)

    def attached(self, attaching: Attaching, attachment: Id | None, now_ns: int) -> None:
        """The broker has accepted the attachment.

        :param attachment: the broker's id; None if it has none.
        """
        place = attaching.place
        if place is None or attaching.ended:
            return
        attaching.end()
        attaching.confirmed(self.gate(attaching.topic, attaching.caller.exempt, now_ns))
        place.attached(attaching.caller, now_ns)
        if attachment is not None:
            self._named(place, attachment, now_ns)
        if attaching.reliable is not None:
            self.topics.learn_reliable(attaching.topic, attaching.reliable)

    def _named(self, place: Place, attachment: Id, now_ns: int) -> None:
        claim = self.unconfirmed.pop(attachment, None)
        if claim is not None:
            claim.end()
        same = self.places.name(place, attachment)
        if same is not None and same.topic == place.topic:
            self.leave(same, now_ns)  # it counted by its id while its name was unknown

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
        if caller not in place.uses.pending and (part is Part.ATTACHING or has_gone):
            self._withdraw(place, caller, now_ns)
        if not place.uses.pending and not place.settled:
            self.release(place, now_ns)
        if attaching.created and not is_known and self.topics.are_listed:
            attaching.confirmed(gate)  # it may exist: the next list shows it
            self.topics.listings.outdated(attaching.topic)
        attaching.withdraw(gate, now_ns)

    def drop_claims(self, place: Place, caller: Caller, now_ns: int) -> None:
        """Drop a caller's unconfirmed claim on a place."""
        for broker_id, attaching in self.unconfirmed.of(place):
            if attaching.caller is caller:
                self.claim_resolved(broker_id, now_ns, is_known=False)

    def claim_resolved(self, producer: Id, now_ns: int, *, is_known: bool) -> None:
        """The broker has responded to the message of an unconfirmed producer.

        :param is_known: False if it rejected the message: then the claim may be false, and the producer
            is released unless others confirm it.
        """
        attaching = self.unconfirmed.pop(producer, None)
        if attaching is None:
            return
        if is_known:
            self.attached(attaching, producer, now_ns)
        elif attaching.place is not None:
            self.places.unname(attaching.place, producer)
            self.failed(attaching, now_ns)

    def stream_ended(self, place: Place, now_ns: int, *, has_left: bool) -> None:
        """A stream of a consumer's has ended; called by the stream.

        :param has_left: True to release it, if it was the last.
        """
        place.seen_ns = now_ns
        if (has_left or place.is_nameless) and not place.in_use:
            self.release(place, now_ns)

    def used(self, place: Place, caller: Caller, now_ns: int) -> None:
        """A caller uses what is attached."""
        place.seen_ns = now_ns
        if caller not in place.callers:
            self.used_by(place, caller, now_ns)

    def used_by(self, place: Place, caller: Caller, now_ns: int, part: Part = Part.USING) -> None:
        """Add a caller to a place, which may be one too many of them.

        :param part: of a caller that is new.
        """
        place.used_by(caller, part)
        if self._most_callers is not None and len(place.callers) > self._most_callers:
            oldest = next((other for other in place.callers if other not in place.uses.pending), caller)
            if oldest is not caller:
                self._withdraw(place, oldest, now_ns)

    def _withdraw(self, place: Place, caller: Caller, now_ns: int) -> None:
        """Remove a caller from a place, and what it attached if others did so as well."""
        ref = place.withdrawn(caller)
        if ref is not None:
            self.gate(place.topic, False, now_ns).detach(ref)

    def leave(self, place: Place | None, now_ns: int) -> None:
        """A producer or consumer has left, if it counted."""
        if place is not None and place.is_counted:
            self.release(place, now_ns)

    def caller_closed(self, caller: Caller, now_ns: int, most: int | None = None) -> None:
        """A connection was closed: release a bounded number of the places that only it used."""
        for place in tuple(islice(caller.places, most)):
            self.drop_claims(place, caller, now_ns)
            self._withdraw(place, caller, now_ns)
            if not place.callers and not place.in_use:
                self.release(place, now_ns)

    def release_ghosts(self, now_ns: int) -> int:
        """Release clients that were silent for too long; call it once a second.

        :return: how many.
        """
        if now_ns < self._look_ns:
            return 0
        ghosts, next_ns = self.places.silent_since(now_ns - self._ghost_release_ns, now_ns)
        for place in ghosts:
            self.release(place, now_ns)
        # Any client that is active from now on is due later than the next one.
        self._look_ns = next_ns + self._ghost_release_ns
        self.ghosts_released += len(ghosts)
        return len(ghosts)

    def release(self, place: Place, now_ns: int) -> None:
        """Count a producer or consumer no longer."""
        gate = self.gate(place.topic, False, now_ns)
        for op in place.refs.values():
            gate.detach(op)
        for broker_id, attaching in self.unconfirmed.of(place):
            self.unconfirmed.pop(broker_id)
            attaching.end()
        self.unacked.forget(place)
        self.places.released(place)
