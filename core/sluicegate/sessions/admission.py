"""How requests to attach are admitted, in every protocol.

A session has the broker list its subscriptions where the decision depends on them, takes the places, holds
the request until a deadline, and gives the places back if the gate, the broker or another part of the same
request refuses.
"""

from dataclasses import dataclass, field

from sluicegate.engine.gate import Gate
from sluicegate.engine.state import TopicState
from sluicegate.model import Action, Decision, Operation, OperationKind
from sluicegate.sessions.listings import Listings


class Creation:
    """The subscription that a request may create, from the gate's decision to the broker's.

    :param create: the operation, the same however often the gate is asked: another one would be counted
        again, and would lose its place among those that wait. None if the request needs no subscription.
    """

    __slots__ = ("create", "created", "is_admitted", "must_list")

    def __init__(self, create: Operation | None) -> None:
        self.create = create
        self.must_list = False
        """True while the broker is to be asked which subscriptions exist."""
        self.is_admitted = False
        """True once the gate has admitted the subscription."""
        self.created = False
        """True until the broker is known to have it: this request creates it, perhaps with others."""

    def lists_first(self, gate: Gate, listings: Listings, now_ns: int) -> bool:
        """Whether the broker must be asked which subscriptions exist before the gate can refuse this one.

        Sets `must_list`. The next call takes the question as answered, so that a broker
        which does not answer is not asked again and again.
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

        While the rest of the request is held, a new list of the broker's may give the place to others.
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
        """Keep the subscription counted whatever happens to requests: the broker has it, or may have it."""
        if self.created and self.create is not None:
            gate.state.confirm(self.create.subscription)
        self.created = False

    def take_back(self, gate: Gate) -> None:
        """The request does not create the subscription after all."""
        if self.created and self.create is not None:
            gate.state.take_back(self.create.subscription)
        self.is_admitted = self.created = False

    def withdraw(self, gate: Gate, now_ns: int) -> None:
        """The request does not reach the broker: it stops waiting, and creates nothing."""
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
        """Take the places of the subscription and then of what attaches; None if both have theirs.

        The subscription keeps its place while the rest is held: see `withdraw`.
        """
        decision = self.decide_creation(gate, now_ns)
        return allowed(gate.decide(self.attach, now_ns)) if decision is None else decision

    def withdraw(self, gate: Gate, now_ns: int) -> None:
        """The request does not reach the broker: it stops waiting, and creates nothing."""
        gate.abandon(self.attach, now_ns)
        super().withdraw(gate, now_ns)


@dataclass(slots=True)
class Hold:
    """How long one request is held: from the first time on, until a deadline."""

    longest_ns: int
    """`max_hold`."""
    least_ns: int = 1_000_000
    """Least wait between two decisions."""
    _end_ns: int = field(default=0, init=False)

    def wait_ns(self, decision: Decision, now_ns: int) -> int:
        """How long to wait before the gate is asked again; 0 to refuse.

        :param decision: what stops the request now: a refusal, or a delay that may be too long.
        """
        if decision.action is not Action.DELAY:
            return 0
        if not self._end_ns:
            self._end_ns = now_ns + self.longest_ns
        return max(0, min(max(decision.delay_ns, self.least_ns), self._end_ns - now_ns))


def allowed(decision: Decision | None) -> Decision | None:
    """None if an attachment may proceed: there is nothing in it that could be rewritten."""
    return None if decision is None or decision.action is Action.REWRITE else decision


def exists(subscription: str, state: TopicState) -> bool:
    """Whether a subscription exists on the broker, as far as is known."""
    known = state.subscriptions.get(subscription)
    return known is not None and known.exists


def depends_on_list(subscription: str, gate: Gate) -> bool:
    """Whether a subscription could be refused, and is not known to exist."""
    return gate.asks(OperationKind.CREATE_SUBSCRIPTION) and not exists(subscription, gate.state)
