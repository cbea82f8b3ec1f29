"""A fleet of gateways over one budget store in simulated time: the product's own parts, no sockets."""

import heapq
import random
import types
from collections.abc import Callable, Coroutine, Generator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from sluicegate.budgets import BudgetStoreError, Grant, Member, MemoryBudgets, MemoryBudgetStore, Request
from sluicegate.engine.bucket import SECOND_NS
from sluicegate.engine.leased_bucket import LeasedBucket
from sluicegate.leasing.away import Away
from sluicegate.leasing.holder import Holder
from sluicegate.leasing.places import PlaceHolder
from sluicegate.leasing.tokens import LeasedBuckets

MS = 1_000_000
LEASE_NS = 200 * MS
BIN_NS = 100 * MS
_PLACE_LEASE_NS, _TIMEOUT_NS, _STEP_NS = 3_000 * MS, 20 * MS, 10 * MS
_START_NS = 3_600 * SECOND_NS
_PATIENCE_S = 0.1
"""How much of its demand waits at most."""


@dataclass(frozen=True, slots=True)
class Weather:
    """What the network and the load do, in s since the start.

    :ivar latency_s: median of one way.
    :ivar loss: share of requests, and of answers, that are lost.
    :ivar cut: share of the gateways that cannot reach the store for a time.
    """

    latency_s: float = 0.0005
    loss: float = 0
    cut: float = 0
    cut_from_s: float = 0
    cut_until_s: float = 0
    turn_s: float = 4


@dataclass(slots=True, eq=False)
class SimulatedLimit:
    """One limit, and the worst window over all that spend of it."""

    rate: float = 0
    uses: list["Use"] = field(default_factory=list)
    excess: float = 0
    """The most that any window had beyond rate x T."""
    _level: float = 0
    _spent_ns: int = 0

    def spend(self, tokens: int, now_ns: int) -> None:
        """Take note of what was spent."""
        self._level = max(0.0, self._level - (now_ns - self._spent_ns) * self.rate / SECOND_NS) + tokens
        self._spent_ns = now_ns
        self.excess = max(self.excess, self._level)


@dataclass(slots=True, eq=False)
class Use:
    """What one gateway does with one limit.

    :ivar demand: messages a second, before and after the turn.
    :ivar spent: messages in each bin of time.
    """

    limit: SimulatedLimit
    bucket: LeasedBucket
    demand: tuple[float, float]
    spent: list[int]
    _waiting: float = 0

    def offer(self, demand: float, now_ns: int, at_bin: int) -> None:
        """Spend what the demand of a step and what waits can get."""
        self._waiting = min(self._waiting + demand * _STEP_NS / SECOND_NS, max(1.0, demand * _PATIENCE_S))
        most = int(self._waiting)
        if not most:
            return
        now = min(most, max(0, int(self.bucket.balance(now_ns)[0])))
        if now and not self.bucket.take(now, 0, now_ns):
            self._waiting -= now
            self.spent[at_bin] += now
            self.limit.spend(now, now_ns)
        if now < most:
            self.bucket.wait(1, 0, now_ns)
            self.bucket.wait(1, 0, now_ns, most - now - 1)


@types.coroutine
def _over_the_network(call: Callable[[], Any]) -> Generator[Callable[[], Any], Any, Any]:
    return (yield call)


class _DistantStore(MemoryBudgetStore):
    """The store, whose calls the fleet carries."""

    def __init__(self, fleet: "SimulatedFleet", holder: str) -> None:
        super().__init__(fleet.budgets, holder)
        self._fleet = fleet

    async def reserve(self, requests: Sequence[Request]) -> Sequence[Grant]:
        self._fleet.calls += 1
        self._fleet.requests += len(requests)
        grants: Sequence[Grant] = await _over_the_network(lambda: self._budgets.reserve(requests))
        return grants

    async def join(self, member: Member) -> int:
        again, self._member = self._member is not None, member
        members: int = await _over_the_network(lambda: self._budgets.join(member, again))
        return members


class SimulatedGateway:
    """One holder and what it serves."""

    def __init__(self, fleet: "SimulatedFleet", name: str) -> None:
        store = _DistantStore(fleet, name)
        self.tokens = LeasedBuckets("broker", LEASE_NS)
        self.uses: list[Use] = []
        self.is_cut = False
        """Whether it is one of those that lose the store for a time."""
        self.turn: Coroutine[Callable[[], Any], Any, None] | None = None
        """What is under way."""
        member = Member(name, "broker/0", name)
        away = Away("share", LEASE_NS, _PLACE_LEASE_NS, fleet.now_ns)
        places = PlaceHolder(
            store, "broker", name, _PLACE_LEASE_NS, "share", lambda: away.sharing, lambda: fleet.now_ns
        )
        self.holder = Holder(store, self.tokens, places, away, lambda: member, lambda: fleet.now_ns)


class SimulatedFleet:
    """All gateways, the store, and the network between them.

    :param limits: of the fleet; `use` tells who uses them.
    :param seconds: how long `run` lasts.
    :param chance: its seed makes the run.
    """

    def __init__(self, gateways: int, limits: int, seconds: float, weather: Weather, chance: random.Random):
        self.weather = weather
        self.now_ns = 0
        self.calls = self.requests = 0
        self.budgets = MemoryBudgets(LEASE_NS // 1000, _PLACE_LEASE_NS // 1000, lambda: self.now_ns // 1000)
        self.now_ns = _START_NS
        self._end_ns = _START_NS + int(seconds * SECOND_NS)
        self._chance = chance
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0
        self.limits = [SimulatedLimit() for _ in range(limits)]
        self.gateways = [SimulatedGateway(self, f"gateway {number}") for number in range(gateways)]
        for each in self.gateways[: round(gateways * weather.cut)]:
            each.is_cut = True

    def use(self, gateway: SimulatedGateway, number: int, demand: tuple[float, float]) -> None:
        """Let a gateway use a limit, whose rate becomes half of what all want of it, at the least."""
        limit = self.limits[number]
        bucket = gateway.tokens.bucket(f"topic-{number}", 1, 0, 1, self.now_ns)
        bins = (self._end_ns - _START_NS) // BIN_NS + 1
        use = Use(limit, bucket, demand, [0] * bins)
        limit.uses.append(use)
        gateway.uses.append(use)
        limit.rate = min(sum(each.demand[side] for each in limit.uses) for side in (0, 1)) / 2

    def run(self) -> None:
        """Let the time pass."""
        for gateway in self.gateways:
            for use in gateway.uses:
                use.bucket.reconfigure(use.limit.rate, 0, 1, self.now_ns)
            self._at(self._chance.randrange(_STEP_NS), partial(self._step, gateway))
        while self._events and self._events[0][0] < self._end_ns:
            self.now_ns, _, event = heapq.heappop(self._events)
            event()

    def _at(self, after_ns: int, event: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._events, (self.now_ns + after_ns, self._count, event))

    def _step(self, gateway: SimulatedGateway) -> None:
        since_ns = self.now_ns - _START_NS
        side = int(since_ns >= self.weather.turn_s * SECOND_NS)
        at_bin = since_ns // BIN_NS
        for use in gateway.uses:
            use.offer(use.demand[side], self.now_ns, at_bin)
        self._turn(gateway)
        self._at(_STEP_NS, lambda: self._step(gateway))

    def _turn(self, gateway: SimulatedGateway) -> None:
        """Begin the calls that are due, and come again when the next one is."""
        if gateway.turn is None:
            gateway.turn = gateway.holder.turn()
            self._go_on(gateway, gateway.turn.send, None)

    def _go_on(
        self, gateway: SimulatedGateway, resume: Callable[[Any], Callable[[], Any]], value: Any
    ) -> None:
        try:
            call = resume(value)
        except StopIteration:
            gateway.turn = None
            due_ns = gateway.tokens.due_ns
            if due_ns is not None and self.now_ns < due_ns < self.now_ns + _STEP_NS:
                self._at(due_ns - self.now_ns, lambda: self._turn(gateway))
            return
        self._carry(gateway, call)

    def _carry(self, gateway: SimulatedGateway, call: Callable[[], Any]) -> None:
        """Take a call to the store and its answer back, unless the network loses one of them."""
        turn = gateway.turn
        assert turn is not None
        there_ns, back_ns = self._way_ns(gateway), self._way_ns(gateway)

        def fail() -> None:
            self._go_on(gateway, turn.throw, BudgetStoreError("it did not answer in time"))

        def arrive() -> None:
            answer = call()
            if is_answered:
                self._at(back_ns or 0, lambda: self._go_on(gateway, turn.send, answer))

        is_answered = there_ns is not None and back_ns is not None and there_ns + back_ns < _TIMEOUT_NS
        if there_ns is not None:
            self._at(there_ns, arrive)
        if not is_answered:
            self._at(_TIMEOUT_NS, fail)

    def _way_ns(self, gateway: SimulatedGateway) -> int | None:
        """How long one way takes; None if what is sent is lost."""
        weather, since_s = self.weather, (self.now_ns - _START_NS) / SECOND_NS
        is_cut = gateway.is_cut and weather.cut_from_s <= since_s < weather.cut_until_s
        if is_cut or self._chance.random() < weather.loss:
            return None
        return int(self._chance.lognormvariate(0, 0.3) * weather.latency_s * SECOND_NS)
