"""Several controllers under adaptive throttling that share one store, with a clock that the test turns."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.features.adaptive.lab import Lab
from tests.leasing.fleet import MEMBER_NS, MS, Network, finished

from sluicegate.budgets import Member, MemoryBudgets
from sluicegate.engine.state import BrokerState
from sluicegate.engine.task import SharedTask
from sluicegate.leasing.away import Away
from sluicegate.leasing.holder import Holder
from sluicegate.leasing.places import PlaceHolder
from sluicegate.leasing.tokens import LeasedBuckets
from sluicegate.model import PolicyValue
from sluicegate.testing import ManualClock

LEASE_NS = 200 * MS
TASK_LEASE_S = 5.0
_STEP_MS = 5


class Worker(Lab):
    """One worker: a controller with its topics, and its part of the shared limits."""

    def __init__(
        self, name: str, clock: ManualClock, budgets: MemoryBudgets, settings: Mapping[str, PolicyValue]
    ) -> None:
        self.name = name
        self.network = Network(budgets, name)
        self.backlog_readings = 0
        tokens = LeasedBuckets("events", LEASE_NS)
        member = Member(name, "events/0", name)
        away = Away("share", LEASE_NS, MEMBER_NS, clock())
        places = PlaceHolder(self.network, "events", name, MEMBER_NS, "share", lambda: 0, clock)
        self.holder = Holder(self.network, tokens, places, away, lambda: member, clock)
        super().__init__(0, settings=settings, clock=clock, broker=BrokerState(tokens))
        self.has_led = False

    async def _read_backlogs(self) -> Mapping[str, object]:  # type: ignore[override]
        self.backlog_readings += 1
        return self.backlogs

    @property
    def shared(self) -> SharedTask:
        """What it tells the others."""
        shared = self.tasks[0].shared
        assert shared is not None
        return shared

    def open(self, *names: str) -> None:
        """Let topics have clients here."""
        for name in names:
            self.gates[name] = self.gate(name)


@dataclass
class FleetLab:
    """Workers of one fleet. Of those that are there the first one leads.

    :param size: how many there are at first, called `w0`, `w1` and so on.
    """

    size: int = 2
    settings: Mapping[str, PolicyValue] = field(default_factory=dict)
    workers: list[Worker] = field(default_factory=list)
    reports: dict[str, tuple[str, float]] = field(default_factory=dict)
    """What each has told last, and when."""
    findings: str = ""
    findings_ns: int = 0
    is_away: bool = False
    """Whether the store does not answer."""
    admitted: list[tuple[int, int]] = field(default_factory=list)
    """Times and messages of what passed anywhere."""

    def __post_init__(self) -> None:
        self.clock = ManualClock()
        self.budgets = MemoryBudgets(LEASE_NS // 1000, MEMBER_NS // 1000, lambda: self.clock() // 1000)
        self.clock.advance(3600)
        self._started = 0
        for _ in range(self.size):
            self.start()

    def start(self) -> Worker:
        """Start one more."""
        worker = Worker(f"w{self._started}", self.clock, self.budgets, self.settings)
        self._started += 1
        self.workers.append(worker)
        return worker

    def open(self, *names: str) -> None:
        """Let topics have clients at all workers."""
        for worker in self.workers:
            worker.open(*names)

    def kill(self, worker: Worker) -> None:
        """End a worker as `kill -9` does: what it told stays until its lease ends."""
        self.workers.remove(worker)

    def turn(self) -> None:
        """What the runner of tasks does at each worker once in an interval."""
        asyncio.run(self._turn())

    async def _turn(self) -> None:
        for place, worker in enumerate(self.workers):
            text = await worker.shared.tell()
            if self.is_away:
                worker.shared.hear(None)
                await worker.tasks[0].run()
                continue
            self.reports[worker.name] = text, self.clock() / 1e9
            age_s = (self.clock() - self.findings_ns) / 1e9
            if place:
                if self.findings:
                    worker.shared.take(self.findings, age_s)
                continue
            if not worker.has_led and self.findings:
                worker.shared.take(self.findings, age_s)
            worker.has_led = True
            worker.shared.hear(self._heard(worker))
            await worker.tasks[0].run()
            self.findings, self.findings_ns = worker.shared.findings(), self.clock()

    def _heard(self, leader: Worker) -> dict[str, str]:
        now_s = self.clock() / 1e9
        return {
            name: text
            for name, (text, at_s) in self.reports.items()
            if name != leader.name and now_s - at_s < TASK_LEASE_S
        }

    def cycle(self, times: int = 1, **traffic: int) -> None:
        """Let seconds pass in which each worker passes messages without a limit, then have a turn.

        :param traffic: messages of topic `t0` a second, by worker.
        """
        for _ in range(times):
            self.clock.advance(1)
            for worker in self.workers:
                for state in worker.context.states.values():
                    state.batched_messages += traffic.get(worker.name, 0)
                    state.batched_bytes += 100 * traffic.get(worker.name, 0)
            self.turn()

    def offer(self, seconds: int, **demand: int) -> dict[str, int]:
        """Publish through the gates for seconds, with a turn after each; by worker, what passed.

        :param demand: messages of topic `t0` a second, by worker.
        """
        passed = dict.fromkeys(demand, 0)
        owed: dict[str, float] = {}
        for step in range(seconds * 1000 // _STEP_MS):
            self.clock.advance(ms=_STEP_MS)
            for worker in self.workers:
                if not self.is_away or worker.network.failing:
                    finished(worker.holder.turn())
                name = worker.name
                owed[name] = owed.get(name, 0.0) + demand.get(name, 0) * _STEP_MS / 1000
                while owed[name] >= 1 and worker.decide() is None:
                    owed[name] -= 1
                    passed[name] += 1
                    self.admitted.append((self.clock(), 1))
            if step % (1000 // _STEP_MS) == 1000 // _STEP_MS - 1:
                self.turn()
        return passed
