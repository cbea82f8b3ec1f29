"""The failovers under way: from a broker's death until each of its topics has a new owner."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from sluicegate_danube.failover.durable import Incomplete
from sluicegate_danube.failover.moves import Move
from sluicegate_danube.failover.view import ClusterView

_SHOWN = 5
_NS = 1_000_000_000


@dataclass(slots=True)
class Failover:
    """The move of one dead broker's topics."""

    broker: int
    address: str
    since_ns: int
    """When the broker was first seen to be gone; monotonic."""
    released: set[str] = field(default_factory=set)
    given: Counter[int] = field(default_factory=Counter)
    """How many topics each new owner got."""


class Failovers:
    """The failovers of one leader; a later leader finishes the moves without knowing them."""

    def __init__(self) -> None:
        self._running: dict[int, Failover] = {}

    def clear(self) -> None:
        """Forget them: another controller continues."""
        self._running.clear()

    def released(self, broker: int, address: str, since_ns: int, topics: Iterable[str]) -> None:
        """Topics were taken from a dead broker."""
        failover = self._running.setdefault(broker, Failover(broker, address, since_ns))
        failover.released.update(topics)

    def given(self, moves: Iterable[Move]) -> Counter[int]:
        """Topics were given to brokers.

        :return: by broker, how many belong to no current failover.
        """
        others: Counter[int] = Counter()
        for move in moves:
            owners = [each for each in self._running.values() if move.topic in each.released]
            for counts in [failover.given for failover in owners] or [others]:
                counts[move.broker] += 1
        return others

    def finished(self, view: ClusterView, dead: Collection[int]) -> Iterator[Failover]:
        """Take out those that are complete: no topic of theirs waits, and none is left to be taken.

        :param dead: brokers that still have topics to be taken.
        """
        for broker, failover in list(self._running.items()):
            if broker not in dead and not failover.released & view.unassigned.keys():
                del self._running[broker]
                if failover.given:
                    yield failover


def summary(failover: Failover, now_ns: int, lacking: Incomplete) -> str:
    """A failover in one line."""
    took_s = (now_ns - failover.since_ns) / _NS
    where = counted(failover.given)
    text = (
        f"broker {failover.broker} ({failover.address}) is dead: {failover.given.total()} topics moved in "
        f"{took_s:.3f} s, {where}"
    )
    lacks = [
        f"{len(topics)} without a {entry}: {some(topics)}"
        for entry, topics in (("policy", lacking.without_policy), ("schema", lacking.without_schema))
        if topics
    ]
    return "; ".join([text, *lacks])


def counted(given: Counter[int]) -> str:
    """How many topics each broker got."""
    return ", ".join(f"{count} to broker {broker}" for broker, count in sorted(given.items()))


def some(names: Collection[str]) -> str:
    """The first few of some names."""
    shown = sorted(names)[:_SHOWN]
    more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    return ", ".join(shown) + more
