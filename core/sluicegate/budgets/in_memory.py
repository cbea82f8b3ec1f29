"""A budget store within one process: the supervisor's, for the workers of its host."""

from collections.abc import Callable, Sequence
from time import monotonic_ns

from sluicegate.budgets.budget_store import Grant, Place, Request
from sluicegate.budgets.central import CentralBucket
from sluicegate.budgets.places import Places


def _monotonic_us() -> int:
    return monotonic_ns() // 1000


class MemoryBudgets:
    """The tokens and places of all limits.

    :param lease_us: how long leased tokens can be spent, in us.
    :param place_lease_us: how long a place is held without being renewed, in us.
    :param now_us: the time.
    """

    def __init__(self, lease_us: int, place_lease_us: int, now_us: Callable[[], int] = _monotonic_us) -> None:
        self._lease_us = lease_us
        self._place_lease_us = place_lease_us
        self._now_us = now_us
        self._buckets: dict[str, CentralBucket] = {}
        self._places: dict[str, Places] = {}
        self._since_us = now_us()

    def reserve(self, holder: str, requests: Sequence[Request]) -> list[Grant]:
        """Lease tokens; see `BudgetStore.reserve`."""
        now_us = self._now_us()
        grants = []
        for each in requests:
            bucket = self._buckets.get(each.limit.name)
            if bucket is None:
                # As if it had been empty at first, and refilled since then.
                level = 0 if each.known else each.limit.rate * (now_us - self._since_us) / 1e6
                bucket = CentralBucket(each.limit, level, self._lease_us, now_us)
                self._buckets[each.limit.name] = bucket
            grants.append(bucket.reserve(holder, each, now_us))
        return grants

    def hold(self, holder: str, places: Sequence[Place]) -> list[int]:
        """Take places; see `BudgetStore.hold`."""
        now_us = self._now_us()
        return [self._of(each.limit).hold(holder, each, now_us) for each in places]

    def release(self, holder: str, places: Sequence[Place]) -> None:
        """Free places; see `BudgetStore.release`."""
        for each in places:
            self._of(each.limit).release(holder, each.identity)

    def forget(self) -> None:
        """Lose everything, as a store does that restarts without its data."""
        self._buckets.clear()
        self._places.clear()
        self._since_us = self._now_us()

    def _of(self, limit: str) -> Places:
        if limit not in self._places:
            self._places[limit] = Places(self._place_lease_us, self._since_us)
        return self._places[limit]


class MemoryBudgetStore:
    """The budgets of this process for one holder; a `BudgetStore`.

    :param budgets: shared by all holders.
    :param holder: its name.
    """

    def __init__(self, budgets: MemoryBudgets, holder: str) -> None:
        self._budgets = budgets
        self._holder = holder

    async def reserve(self, requests: Sequence[Request]) -> Sequence[Grant]:
        """Lease tokens."""
        return self._budgets.reserve(self._holder, requests)

    async def hold(self, places: Sequence[Place]) -> Sequence[int]:
        """Take places."""
        return self._budgets.hold(self._holder, places)

    async def release(self, places: Sequence[Place]) -> None:
        """Free places."""
        self._budgets.release(self._holder, places)

    async def close(self) -> None:
        """Nothing to end."""
