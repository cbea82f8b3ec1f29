"""A cycle of the adaptive controller over many topics: no broker, and pressures that are set."""

import asyncio
import logging
import time
from collections.abc import Mapping
from contextlib import closing

from benchmarks.harness.arms import Bench
from benchmarks.harness.names import ENGINE
from benchmarks.harness.scenario import Scenario
from sluicegate.engine.check import Check
from sluicegate.engine.pressure import Backlog, PressureSource
from sluicegate.engine.state import TopicState
from sluicegate.engine.task import Task
from sluicegate.features.adaptive.plugin import AdaptiveThrottling
from sluicegate.features.adaptive.settings import DEFAULTS, ENABLED, MEMORY_HIGH, MEMORY_LOW
from sluicegate.model import TopicName
from sluicegate.testing import ManualClock, ManualContext

_TOPICS = 1_000
_CYCLES = 50
_QUOTA_BYTES = 1_000_000.0
_MESSAGES, _BYTES = 1_000, 100_000
"""What each topic takes in a second, so that it has a natural rate."""


class _Broker:
    """Many topics under one controller, with a clock that is turned by a second before each cycle.

    :param log: where each topic's transitions are told of, as in the gateway.
    """

    def __init__(self, log: logging.Logger) -> None:
        clock = ManualClock()
        # Memory's watermarks are out of reach: only backlogs press here.
        settings = {**DEFAULTS, ENABLED: True, MEMORY_LOW: 0.99, MEMORY_HIGH: 0.999}
        self.clock, self.context = clock, ManualContext(clock, values=settings, log=log)
        self.backlogs: dict[str, Backlog] = {}
        self.context.pressure_sources = [PressureSource("backlog", "backlog", self._read)]
        plugin = AdaptiveThrottling()
        self.task: Task = plugin.sluicegate_tasks(self.context)[0]
        self.checks: list[Check] = []
        for number in range(_TOPICS):
            name = TopicName(f"topic-{number}", "")
            state = self.context.states[name.full] = TopicState(name, clock.now_ns)
            state.context = self.context
            self.checks += plugin.sluicegate_policy_checks(name, self.context.resolve(name.full), state)

    async def _read(self) -> Mapping[str, Backlog]:
        return self.backlogs

    def press(self, share: float) -> None:
        """Let each topic's backlog be this share of its quota."""
        self.backlogs = {name: Backlog(share * _QUOTA_BYTES, _QUOTA_BYTES) for name in self.context.states}

    async def learn(self) -> None:
        """Let each topic have a natural rate."""
        await self.cycle()
        for state in self.context.states.values():
            state.batched_messages += _MESSAGES
            state.batched_bytes += _BYTES
        await self.cycle()

    async def cycle(self) -> float:
        """Run one; returns its CPU milliseconds."""
        self.clock.advance(1)
        began = time.thread_time()
        await self.task.run()
        return (time.thread_time() - began) * 1000

    @property
    def throttled(self) -> int:
        """Checks that are switched on; each topic has two."""
        return sum(1 for check in self.checks if check.switch is not None and check.switch.on)


def _adaptive(bench: Bench, _name: str, quick: bool) -> dict[str, float]:
    log = logging.Logger("adaptive-cycle")  # no parent: nothing of it reaches the terminal
    with closing(logging.FileHandler(bench.directory / "adaptive-cycle.log")) as file:
        log.addHandler(file)
        return asyncio.run(_cycles(5 if quick else _CYCLES, log))


async def _cycles(count: int, log: logging.Logger) -> dict[str, float]:
    broker = _Broker(log)
    await broker.learn()
    at_rest = [await broker.cycle() for _ in range(count)]
    if broker.throttled:
        raise RuntimeError(f"{broker.throttled} checks are on, where nothing presses")
    broker.press(0.95)
    first = await broker.cycle()
    under_pressure = [await broker.cycle() for _ in range(count)]
    if broker.throttled != len(broker.checks):
        raise RuntimeError(f"{broker.throttled} of {len(broker.checks)} checks are on, where all are pressed")
    broker.press(0.0)
    release = await broker.cycle()
    if broker.throttled:
        raise RuntimeError(f"{broker.throttled} checks are on after the first cycle without pressure")
    return {
        "at_rest_ms": sorted(at_rest)[count // 2],
        "under_pressure_ms": sorted(under_pressure)[count // 2],
        "worst_ms": max(*at_rest, first, *under_pressure, release),
        "all_throttled_ms": first,
        "all_released_ms": release,
    }


SCENARIOS = (
    Scenario(
        "adaptive-cycle",
        "CPU of one cycle of the adaptive controller over 1,000 topics, at rest and throttling all",
        (ENGINE,),
        _adaptive,
        rounds=3,
    ),
)
