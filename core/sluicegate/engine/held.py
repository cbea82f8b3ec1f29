"""Operations that are held, by any policy: those of a broker that are held now, and how long others were."""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from sluicegate.engine.bucket import SECOND_NS
from sluicegate.engine.client_totals import ClientTotals
from sluicegate.engine.wait_queue import Waiter
from sluicegate.model import Operation, OperationKind

FORGET_NS = 60 * SECOND_NS
"""A held operation asks again within seconds; one that has not for this long is held no more."""
BOUNDS_NS = tuple(
    milliseconds * 1_000_000
    for milliseconds in (1, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000)
)
"""Upper bounds of the slots of `HoldTimes`; one more slot counts what was held for longer."""
HOLD_SLOTS = len(BOUNDS_NS) + 1


class HoldTimes:
    """How long operations of one kind on one topic were held, with any outcome: a histogram."""

    __slots__ = ("counts", "total_ns")

    def __init__(self) -> None:
        self.counts = [0] * HOLD_SLOTS
        """By slot; slot n counts holds longer than bound n - 1, up to bound n."""
        self.total_ns = 0

    def add(self, held_ns: int) -> None:
        """Count a hold that has ended.

        :param held_ns: how long it lasted.
        """
        held_ns = max(0, held_ns)
        self.counts[bisect_left(BOUNDS_NS, held_ns)] += 1
        self.total_ns += held_ns


TimesByKind: TypeAlias = defaultdict[OperationKind, HoldTimes]


class Held(NamedTuple):
    """One held operation, as it was when it was first held."""

    op: Operation
    topic: str
    since_ns: int
    totals: ClientTotals


class HeldOperations:
    """Those of all topics of a broker; the gate tells when each hold begins and ends."""

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
        op.held_ns = now_ns or 1  # 0 means that it is not held
        self._held[id(op)] = Held(op, op.topic, now_ns, totals)
        self.by_topic[op.topic] += 1
        totals.held += 1

    def end(self, op: Operation, now_ns: int, times: TimesByKind) -> None:
        """An operation that was held is so no more: it proceeds, was refused, or lost its client.

        :param times: those of its topic.
        """
        times[op.kind].add(now_ns - op.held_ns)
        op.held_ns = 0
        self._forget(op)

    def _forget(self, op: Operation) -> None:
        entry = self._held.pop(id(op), None)
        if entry is None:  # it was silent for so long that it was forgotten
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
                self._forget(held.op)


def holder_of(op: Operation) -> str:
    """The policy that held an operation first; empty if it is not known."""
    waiter = op.waiter
    if isinstance(waiter, Waiter) and waiter.decision is not None and waiter.decision.reasons:
        return waiter.decision.reasons[0].policy
    return ""
