"""Sums by name in bounded memory: of the busiest names each, of all others together."""

from collections import Counter
from collections.abc import Mapping, Sequence
from heapq import nlargest
from operator import add

from sluicegate.runtime.labels import OTHER, label


class BusiestNames:
    """Sums of counters by name, none of which ever falls.

    Whoever gets a name counts from 0; what it did before stays in the sums of all others.

    :param width: how many counters there are.
    :param weighed: indices of the counters that say who is busy.
    :param limit: how many are named.
    """

    def __init__(self, width: int, weighed: Sequence[int], limit: int) -> None:
        self._none = (0,) * width
        self._weighed = weighed
        self._limit = limit
        self.named: dict[str, tuple[int, ...]] = {}
        self.other = self._none
        self._recent: Counter[str] = Counter()
        """How busy each was since the last review."""

    def add(self, name: str, gained: tuple[int, ...]) -> None:
        """Add what a name gained; an empty name is never named."""
        if name:
            self._recent[name] += sum(gained[index] for index in self._weighed)
            if name not in self.named and len(self.named) < self._limit:
                self.named[name] = self._none
        if name in self.named:
            self.named[name] = tuple(map(add, self.named[name], gained))
        else:
            self.other = tuple(map(add, self.other, gained))

    def review(self) -> None:
        """Name those that are now twice as busy as the quietest named ones, instead of these."""
        recent, self._recent = self._recent, Counter()
        quiet = sorted((recent[name], name) for name in self.named)
        unnamed = ((count, name) for name, count in recent.items() if name not in self.named)
        for (least, loser), (most, winner) in zip(quiet, nlargest(self._limit, unnamed), strict=False):
            if most <= 2 * least:
                break
            del self.named[loser]
            self.named[winner] = self._none

    def labelled(self) -> Mapping[str, tuple[int, ...]]:
        """The sums by label, those of all others last, if there are any."""
        by_label = {label(name): sums for name, sums in self.named.items()}
        if any(self.other):
            by_label[OTHER] = self.other
        return by_label
