"""The places that one process holds of limits on counts, in the store that it shares with others."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

from sluicegate.budgets import BudgetStore, BudgetStoreError, Place
from sluicegate.config.budgets_section import OnBudgetLost
from sluicegate.engine.shared_limits import TAKEN, SharedLimit
from sluicegate.leasing.place_count import PlaceCount

_LEAST_WAIT_S = 0.02
"""Between two calls of the store, where it did not answer all."""
_STALE_NS = 1_000_000_000
"""A failure that is older says nothing of the store."""
_NEXT_LOOK_NS = 100_000_000
"""How soon places are freed if nothing waits for them."""


class PlaceHolder:
    """The places of one broker's limits; a `SharedPlaces`.

    Nothing here waits for the store but `run`: what attaches asks again until the answer is there. Several
    places, of any limits, are asked for in one call.

    A store that does not answer is asked again. After the time of one lease new attachments are judged
    without it; those that are there stay, and take their places once it is back. What each process admits
    then is part of what was free, as it heard last, so all together stay at the limit.

    :param store: shared by all holders.
    :param broker: names its limits in the store.
    :param own: names this process among all holders, also after its next start.
    :param lease_ns: how long places are held without being renewed.
    :param on_lost: what happens to new attachments without the store: `share` admits as many as were free,
        divided by the number of holders, `open` all, `pause` none.
    :param holders: how many shared the store when that was last known; 0 if it never was.
    :param clock: gives monotonic time in ns, the same as that of operations.
    """

    def __init__(
        self,
        store: BudgetStore,
        broker: str,
        own: str,
        lease_ns: int,
        on_lost: OnBudgetLost,
        holders: Callable[[], int],
        clock: Callable[[], int],
    ) -> None:
        self._store = store
        self._broker = broker
        self._own = own
        self._lease_ns = lease_ns
        self._on_lost = on_lost
        self._holders = holders
        self._clock = clock
        self._counts: dict[str, dict[str, PlaceCount]] = {}
        """By topic and name."""
        self._failing_ns = 0
        """Since when the store has not answered; 0 while it does."""
        self._tried_ns = 0
        """When it was asked last."""
        self._renew_ns = self._look_ns = 0
        self._woken = asyncio.Event()

    # -- for gates ------------------------------------------------------------------------------------

    def watch(self, limit: SharedLimit) -> None:
        """See `SharedPlaces`."""
        self._count(limit).has_changed = True

    def ask(self, limit: SharedLimit, key: str, roams: bool, now_ns: int) -> int:
        """See `SharedPlaces`."""
        count = self._count(limit)
        identity = count.identity(key, roams)
        answer = count.ask(identity, now_ns)
        if answer < TAKEN:
            if self.is_lost(now_ns):
                return self._judge(count)
            self._woken.set()
        return answer

    def left(self, topic: str, key: str, subscription: str = "") -> None:
        """See `SharedPlaces`."""
        for count in self._counts.get(topic, {}).values():
            count.left(key)
            count.left(f"{subscription}/{key}")

    def is_lost(self, now_ns: int) -> bool:
        """Whether attachments are judged without the store."""
        is_failing = self._failing_ns > 0 and now_ns - self._failing_ns >= self._lease_ns
        return is_failing and now_ns - self._tried_ns < _STALE_NS

    def _count(self, limit: SharedLimit) -> PlaceCount:
        of_topic = self._counts.setdefault(limit.topic, {})
        count = of_topic.get(limit.name)
        if count is None:
            name = f"{self._broker}|{limit.topic}|{limit.name}"
            count = of_topic[limit.name] = PlaceCount(name, self._own, limit)
        count.limit = limit
        return count

    def _judge(self, count: PlaceCount) -> int:
        """Decide without the store."""
        if self._on_lost == "open":
            return TAKEN
        limit, holders = count.limit, self._holders()
        share = count.share(holders) if self._on_lost == "share" and holders else 0
        return TAKEN if sum(1 for _ in limit.present()) < share else limit.most

    # -- the store ------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Talk to the store, until it is cancelled."""
        while True:
            try:
                async with asyncio.timeout(_NEXT_LOOK_NS / 1e9):
                    await self._woken.wait()
            except TimeoutError:
                pass
            await self.turn()
            if self._failing_ns or self._woken.is_set():
                await asyncio.sleep(_LEAST_WAIT_S)

    async def turn(self) -> None:
        """Ask for what is wanted, renew what is due and free what has been left."""
        self._woken.clear()
        now_ns = self._clock()
        counts = {each.name: each for each in self._all()}
        is_due = now_ns >= self._renew_ns
        looks = is_due or now_ns >= self._look_ns or any(each.is_waiting for each in counts.values())
        changed = [each for each in counts.values() if is_due or (looks and each.has_changed)]
        try:
            await self._settle(counts, changed, is_due=is_due, now_ns=now_ns)
            await self._hold(counts, [place for each in counts.values() for place in each.wanted()], now_ns)
        except BudgetStoreError:
            self._tried_ns, self._failing_ns = now_ns, self._failing_ns or now_ns
            for each in changed:
                each.has_changed = True
            return
        if looks:
            self._look_ns = now_ns + _NEXT_LOOK_NS
        if is_due:
            self._renew_ns = now_ns + self._lease_ns // 3
            self._drop_unused()
            if self._on_lost == "share":
                await self._learn_shares()

    async def _settle(
        self, counts: dict[str, PlaceCount], changed: Sequence[PlaceCount], *, is_due: bool, now_ns: int
    ) -> None:
        """Make the store have what is attached.

        What was given another key has its new place before the old one is freed: else another might take it.
        What is attached always has one, be it beyond the limit: it stays, and nothing new fits in.
        """
        taking: list[Place] = []
        gone: dict[str, list[str]] = {}
        for each in changed:
            lacking, gone[each.name] = each.compare(now_ns)
            taking += map(each.kept_place, lacking)
            if is_due or each.said != each.limit.most:
                taking += each.renewals()
        await self._hold(counts, taking, now_ns)
        freed = [place for each in changed for place in each.freeing(gone[each.name])]
        if freed:
            await self._store.release(freed)

    def _all(self) -> list[PlaceCount]:
        return [each for of_topic in self._counts.values() for each in of_topic.values()]

    async def _learn_shares(self) -> None:
        """Learn how many places are free, for the time when the store does not answer."""
        if used := self._all():
            with suppress(BudgetStoreError):  # the next call will tell
                answers = await self._store.taken([each.name for each in used])
                for each, taken in zip(used, answers, strict=True):
                    each.counted(taken)

    async def _hold(self, counts: dict[str, PlaceCount], places: Sequence[Place], now_ns: int) -> None:
        if not places:
            return
        answers = await self._store.hold(places)
        self._failing_ns = 0
        for place, others in zip(places, answers, strict=True):
            counts[place.limit].answered(place, others, now_ns + self._lease_ns)

    def _drop_unused(self) -> None:
        for topic, of_topic in tuple(self._counts.items()):
            for name in [name for name, count in of_topic.items() if count.is_unused()]:
                del of_topic[name]
            if not of_topic:
                del self._counts[topic]
