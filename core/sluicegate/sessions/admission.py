"""Admission of requests to attach, for all protocols.

If a decision depends on existing subscriptions, a session requests their list from the broker. It then
takes the places, holds the request until a deadline, and releases the places if the gate, the broker or
another part of the same request refuses.
"""

from collections.abc import Callable, Hashable

from sluicegate.engine.gate import Gate, allowed
from sluicegate.engine.state import TopicState
from sluicegate.engine.wait_queue import Hold
from sluicegate.model import Decision, Operation, OperationKind
from sluicegate.sessions.listings import Listings
from sluicegate.sessions.work import Ask, Turn, Until, Work


class Creation:
    """The subscription that a request may create, from the gate's decision to the broker's.

    :param create: the operation, the same one for each attempt: another one would be counted again, and would
        lose its waiters in queues. None if the request needs no subscription.
    """

    __slots__ = ("create", "created", "is_admitted", "must_list")

    def __init__(self, create: Operation | None) -> None:
        self.create = create
        self.must_list = False
        """True while the list of subscriptions must be requested from the broker."""
        self.is_admitted = False
        """True once the gate has admitted the subscription."""
        self.created = False
        """True if this request, perhaps besides others, creates it; until the broker is known to have it."""

    def lists_first(self, gate: Gate, listings: Listings, now_ns: int) -> bool:
        """Whether the gate needs the broker's list of subscriptions before it can refuse this one.

        Sets `must_list`. The next call assumes an answer, so that a broker that cannot answer is not asked
        repeatedly.
        """
        asked, self.must_list = self.must_list, False
        create = self.create
        if create is not None and not (asked or self.is_admitted):
            self.must_list = depends_on_list(create.subscription, gate) and not listings.fresh(
                create.topic, now_ns
            )
        return self.must_list

    def decide_creation(self, gate: Gate, now_ns: int) -> Decision | None:
        """Take the place of the subscription; None if it has one.

        While the rest of the request is held, a newer list from the broker may free the place for others.
        """
        create = self.create
        if create is None:
            return None
        existed = exists(create.subscription, gate.state)
        if self.is_admitted and (existed or not self.created):
            return None
        self.is_admitted = self.created = False
        decision = allowed(gate.decide(create, now_ns))
        if decision is None:
            known = gate.state.subscriptions.get(create.subscription)
            self.is_admitted, self.created = True, known is not None and known.creating > 0
        return decision

    def confirmed(self, gate: Gate) -> None:
        """Keep the subscription counted even if requests fail: the broker has it, or may have it."""
        if self.created and self.create is not None:
            gate.state.confirm(self.create.subscription)
        self.created = False

    def take_back(self, gate: Gate) -> None:
        """The request does not create the subscription after all."""
        if self.created and self.create is not None:
            gate.state.take_back(self.create.subscription)
        self.is_admitted = self.created = False

    def withdraw(self, gate: Gate, now_ns: int) -> None:
        """The request will not be sent to the broker: leave wait queues and release the places."""
        if self.create is not None:
            gate.abandon(self.create, now_ns)
        self.take_back(gate)


class Admission(Creation):
    """A producer or consumer that attaches, with the subscription that it may create.

    :param attach: the operation that adds it; the same each time, as `create`.
    :param create: as for `Creation`.
    """

    __slots__ = ("attach",)

    def __init__(self, attach: Operation, create: Operation | None = None) -> None:
        super().__init__(create)
        self.attach = attach

    def decide(self, gate: Gate, now_ns: int) -> Decision | None:
        """Take the place of the subscription and then of the attachment; None if both are taken.

        The subscription keeps its place while the rest is held: see `withdraw`.
        """
        decision = self.decide_creation(gate, now_ns)
        return allowed(gate.decide(self.attach, now_ns)) if decision is None else decision

    def withdraw(self, gate: Gate, now_ns: int) -> None:
        """The request will not be sent to the broker: leave wait queues and release the places."""
        gate.abandon(self.attach, now_ns)
        super().withdraw(gate, now_ns)


def taking(
    place: Creation,
    turn: Turn,
    hold: Hold,
    gate: Callable[[int], Gate],
    decide: Callable[[Gate, int], Decision | None],
    listings: Listings,
    question: Hashable,
) -> Work[Decision | None]:
    """Take a place, waiting as long as the request may be held; it keeps its order among those that wait.

    :param gate: `now_ns -> gate`: the topic's, as it is then.
    :param decide: `(gate, now_ns) -> decision`: asks it; None if the place is taken.
    :param listings: how old the lists of subscriptions are.
    :param question: has the front list those of the topic.
    :return: None if it is taken, else why it is not; it is withdrawn then, as it is if the work is closed.
    """
    is_taken = False
    try:
        while not is_taken:
            while place.lists_first(gate(turn.now_ns), listings, turn.now_ns):
                yield Ask(question)
            decision = decide(gate(turn.now_ns), turn.now_ns)
            if decision is None:
                is_taken = True
            elif wait_ns := hold.wait_ns(decision, turn.now_ns):
                yield Until(turn.now_ns + wait_ns)
            else:
                return decision
        return None
    finally:
        if not is_taken:
            place.withdraw(gate(turn.now_ns), turn.now_ns)


def exists(subscription: str, state: TopicState) -> bool:
    """Whether a subscription exists on the broker, as far as is known."""
    known = state.subscriptions.get(subscription)
    return known is not None and known.exists


def depends_on_list(subscription: str, gate: Gate) -> bool:
    """Whether a subscription could be refused and is not known to exist."""
    return gate.asks(OperationKind.CREATE_SUBSCRIPTION) and not exists(subscription, gate.state)
