"""A budget store within one process: the supervisor's, for the workers of its host."""

from collections.abc import Callable, Sequence
from time import monotonic_ns

from sluicegate.budgets.budget_store import Grant, Member, Place, Request, Standing, Turn, check_size
from sluicegate.budgets.central import CentralBucket
from sluicegate.budgets.fleet_members import FleetMembers
from sluicegate.budgets.led_task import LedTask
from sluicegate.budgets.places import Places


def _monotonic_us() -> int:
    return monotonic_ns() // 1000


class MemoryBudgets:
    """The tokens and places of all limits.

    :param lease_us: how long leased tokens can be spent, in us.
    :param place_lease_us: how long a place is held without being renewed, in us.
    :param now_us: the time.
    :param since_us: when they began, now if None: buckets were empty then, and places may have been held.
    """

    def __init__(
        self,
        lease_us: int,
        place_lease_us: int,
        now_us: Callable[[], int] = _monotonic_us,
        since_us: int | None = None,
    ) -> None:
        self._lease_us = lease_us
        self._place_lease_us = place_lease_us
        self._now_us = now_us
        self._buckets: dict[str, CentralBucket] = {}
        self._places: dict[str, Places] = {}
        self._tasks: dict[str, LedTask] = {}
        self._fleet = FleetMembers(place_lease_us)
        self._since_us = now_us() if since_us is None else since_us

    def reserve(self, requests: Sequence[Request]) -> list[Grant]:
        """Lease tokens; see `BudgetStore.reserve`."""
        now_us = self._now_us()
        return [self._bucket(each, now_us).reserve(each, now_us) for each in requests]

    def standings(self) -> list[Standing]:
        """How all limits stand; see `BudgetStore.standings`."""
        now_us = self._now_us()
        return [bucket.standing(name, now_us) for name, bucket in sorted(self._buckets.items())]

    def hold(self, holder: str, places: Sequence[Place]) -> list[int]:
        """Take places; see `BudgetStore.hold`."""
        now_us = self._now_us()
        return [self._of(each.limit).hold(holder, each, now_us) for each in places]

    def release(self, holder: str, places: Sequence[Place]) -> None:
        """Free places; see `BudgetStore.release`."""
        for each in places:
            self._of(each.limit).release(holder, each.identity)

    def taken(self, limits: Sequence[str]) -> list[int]:
        """How many places are taken; see `BudgetStore.taken`."""
        now_us = self._now_us()
        return [self._of(each).taken(now_us) for each in limits]

    def join(self, member: Member, again: bool) -> int:
        """Become a member, or stay one; see `BudgetStore.join`.

        :param again: whether this instance has joined before.
        """
        return self._fleet.join(member, again, self._now_us())

    def leave(self, member: Member) -> None:
        """Stop being a member; see `BudgetStore.leave`."""
        self._fleet.leave(member)

    def members(self) -> list[Member]:
        """All members; see `BudgetStore.members`."""
        return self._fleet.all(self._now_us())

    def attend(self, holder: str, task: str, report: str, lease: float) -> Turn:
        """Report what a holder sees for a task, and take its lead if it is free; see `BudgetStore.attend`."""
        check_size(task, report)
        return self._tasks.setdefault(task, LedTask()).attend(
            holder, report, round(lease * 1e6), self._now_us()
        )

    def publish(self, holder: str, task: str, findings: str) -> bool:
        """Say what came of a task; see `BudgetStore.publish`."""
        check_size(task, findings)
        return self._tasks.setdefault(task, LedTask()).publish(holder, findings, self._now_us())

    def stop_leading(self, holder: str) -> None:
        """Lead no task any more."""
        for task in self._tasks.values():
            task.leave(holder)

    def forget(self) -> None:
        """Lose everything, as a store does that restarts without its data."""
        self._buckets.clear()
        self._places.clear()
        self._tasks.clear()
        self._fleet = FleetMembers(self._place_lease_us)
        self._since_us = self._now_us()

    def _bucket(self, request: Request, now_us: int) -> CentralBucket:
        limit = request.limit
        if limit.name not in self._buckets:
            # As if it had been empty when the last lease of before the beginning ended.
            refilling_us = now_us - self._since_us - self._lease_us
            was_lost = request.known or refilling_us < 0
            level = None if was_lost else max(0.0, refilling_us / 1e6 - request.away) * limit.rate
            self._buckets[limit.name] = CentralBucket(limit, level, self._lease_us, now_us)
        return self._buckets[limit.name]

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
        self._member: Member | None = None

    async def reserve(self, requests: Sequence[Request]) -> Sequence[Grant]:
        """Lease tokens."""
        return self._budgets.reserve(requests)

    async def hold(self, places: Sequence[Place]) -> Sequence[int]:
        """Take places."""
        return self._budgets.hold(self._holder, places)

    async def release(self, places: Sequence[Place]) -> None:
        """Free places."""
        self._budgets.release(self._holder, places)

    async def taken(self, limits: Sequence[str]) -> Sequence[int]:
        """How many places of each limit are taken."""
        return self._budgets.taken(limits)

    async def join(self, member: Member) -> int:
        """Become a member, or stay one."""
        again, self._member = self._member is not None, member
        return self._budgets.join(member, again)

    async def leave(self) -> None:
        """Stop being a member, and leading tasks."""
        self._budgets.stop_leading(self._holder)
        if self._member is not None:
            self._budgets.leave(self._member)
            self._member = None

    async def members(self) -> Sequence[Member]:
        """All members."""
        return self._budgets.members()

    async def attend(self, task: str, report: str, lease: float) -> Turn:
        """Report what this holder sees for a task, and take the lead if no other holder has it."""
        return self._budgets.attend(self._holder, task, report, lease)

    async def publish(self, task: str, findings: str) -> bool:
        """Say what came of a task."""
        return self._budgets.publish(self._holder, task, findings)

    async def standings(self) -> Sequence[Standing]:
        """How all limits stand."""
        return self._budgets.standings()

    async def close(self) -> None:
        """Nothing to end."""
