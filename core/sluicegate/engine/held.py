"""Operations that are held now, by any policy, of all topics of a broker."""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from sluicegate.engine.bucket import SECOND_NS
from sluicegate.engine.client_totals import ClientTotals
from sluicegate.engine.wait_queue import Waiter
from sluicegate.model import Operation

FORGET_NS = 60 * SECOND_NS
"""A held operation asks again within seconds; one that has not for this long is held no more."""


class Held(NamedTuple):
    """One held operation, as it was when it was first held."""

    op: Operation
    topic: str
    since_ns: int
    totals: ClientTotals


class HeldOperations:
    """The registry; the gate notes each hold when it begins and when it ends."""

    __slots__ = ("_held", "by_topic")

    def __init__(self) -> None:
        self._held: dict[int, Held] = {}  # by identity: operations compare by value
        self.by_topic: Counter[str] = Counter()
        """How many are held of each topic; topics of which none is held are left out."""

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[Held]:
        """All held operations, in the order in which they were first held."""
        return iter(tuple(self._held.values()))

    def begin(self, op: Operation, now_ns: int, totals: ClientTotals) -> None:
        """An operation is held from now on."""
        if id(op) in self._held:
            self.end(op)
        self._held[id(op)] = Held(op, op.topic, now_ns, totals)
        self.by_topic[op.topic] += 1
        totals.held += 1

    def end(self, op: Operation) -> None:
        """An operation is held no more; does nothing if it was not."""
        entry = self._held.pop(id(op), None)
        if entry is None:
            return
        entry.totals.held -= 1
        self.by_topic[entry.topic] -= 1
        if not self.by_topic[entry.topic]:
            del self.by_topic[entry.topic]

    def forget_silent(self, now_ns: int) -> None:
        """Forget those that have not asked again for long, as their sessions must have forgotten them."""
        for held in self:
            waiter = held.op.waiter
            asked_ns = waiter.asked_ns if isinstance(waiter, Waiter) else held.since_ns
            if now_ns - max(asked_ns, held.since_ns) > FORGET_NS:
                self.end(held.op)


def holder_of(op: Operation) -> str:
    """The policy that held an operation first; empty if it is not known."""
    waiter = op.waiter
    if isinstance(waiter, Waiter) and waiter.decision is not None and waiter.decision.reasons:
        return waiter.decision.reasons[0].policy
    return ""
