"""Executes a comparison run: starts brokers, plays one arm after the other, writes the facts last."""

import asyncio
import os
import secrets
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from sluicegate.config.errors import ConfigErrors
from sluicegate.config.load import load
from sluicegate.engine.hierarchy import Resolver
from sluicegate.model import EffectivePolicies
from sluicegate.runtime.plugins import Plugins
from sluicegate_reports.model.results import Arm as ArmFacts
from sluicegate_reports.model.results import Baseline, Phase, RunFacts, Skew
from sluicegate_reports.model.runs import OBSERVATIONS, Run, Trial, write_run
from sluicegate_reports.registry import door
from sluicegate_reports.runner import machine
from sluicegate_reports.runner.broker_provider import BrokerProvider
from sluicegate_reports.runner.brokers.processes import UnavailableError
from sluicegate_reports.runner.children import ClockOffset, Talker
from sluicegate_reports.runner.doors import Arm, Setting, Way
from sluicegate_reports.runner.doors.base import Broker
from sluicegate_reports.runner.doors.gate import write_file
from sluicegate_reports.runner.driver import write_plan
from sluicegate_reports.runner.loading import LoadedScenario
from sluicegate_reports.runner.plan import ArmPlan, brief, make_plan, topics
from sluicegate_reports.runner.preparing import prepare_topics
from sluicegate_reports.runner.trials import Played, baselines, phases, trials, utc

_DRIVER = "sluicegate_reports.runner.driver"
_READY_S = 300.0
_SILENCE_S = 300.0
"""Longest silence of the clients' process, which reports progress twice a second."""
ARM_START_S = 3.0
BROKER_START_S = 12.0
"""Time to start an arm, and a real broker, in the estimate that is shown first."""


class Progress(Protocol):
    """Receives the progress of a run."""

    def say(self, text: str) -> None:
        """A line."""

    def begin(self, arm: str, seconds: float) -> None:
        """An arm starts; `seconds` is its expected duration."""

    def at(self, seconds: float, counts: Mapping[str, int]) -> None:
        """Elapsed time of the arm, and its observations by event."""

    def end(self, arm: str, missing: str) -> None:
        """The arm has ended, or could not be played for this reason."""


@dataclass(slots=True)
class Outcome:
    """The results of one arm."""

    facts: ArmFacts
    trials: list[Trial] = field(default_factory=list)
    phases: list[Phase] = field(default_factory=list)
    skews: list[Skew] = field(default_factory=list)
    baselines: list[Baseline] = field(default_factory=list)


@dataclass(slots=True)
class Comparison:
    """One run.

    :param command: the command line, for the facts.
    """

    loaded: LoadedScenario
    arms: list[Arm]
    directory: Path
    """The run's; exists and is empty."""
    plugins: Plugins
    progress: Progress
    command: str
    given: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    embedded: bool = False
    run: str = ""
    _versions: dict[str, str] = field(default_factory=dict)

    async def play(self) -> Run:
        """Play all arms; an arm that cannot be played is recorded in the facts, and the others continue.

        :raises OSError: if the run's directory cannot be written.
        """
        started = datetime.now(UTC)
        suffix = secrets.token_hex(3)
        self.run = self.run or f"{started:%Y%m%dT%H%M%SZ}-{suffix}"
        outcomes: list[Outcome] = []
        served = self.plugins.drivers
        outcomes += [
            self._not_played(arm, self._why_not_served(arm.client), None, suffix)
            for arm in self.arms
            if arm.client not in served
        ]
        playable = [arm for arm in self.arms if arm.client in served]
        for name in dict.fromkeys(arm.broker for arm in playable):
            group = [arm for arm in playable if arm.broker == name]
            outcomes += await self._group(name, group, suffix)
        order = {(arm.system, arm.door): index for index, arm in enumerate(self.arms)}
        outcomes.sort(key=lambda each: order[each.facts.system, each.facts.door])
        run = Run(self._facts(started, outcomes), tuple(t for each in outcomes for t in each.trials))
        await asyncio.to_thread(write_run, self.directory, run)
        return run

    def _why_not_served(self, system: str) -> str:
        left_out = self.plugins.left_out.get(system)
        return (
            left_out.explanation if left_out else f"no plugin of the gateway serves {system!r}: install one"
        )

    def _facts(self, started: datetime, outcomes: list[Outcome]) -> RunFacts:
        systems = tuple(dict.fromkeys(arm.client for arm in self.arms))
        return RunFacts(
            self.run,
            self.loaded.text,
            self.loaded.policies,
            self.loaded.scenario.title or self.loaded.scenario.name,
            started,
            datetime.now(UTC),
            machine.versions(systems) | self._versions,
            machine.machine(),
            (self.command,),
            tuple(phase for each in outcomes for phase in each.phases),
            tuple(each.facts for each in outcomes if door(each.facts.door).judged),
            tuple(skew for each in outcomes for skew in each.skews),
            tuple(baseline for each in outcomes for baseline in each.baselines),
        )

    # -- arms -----------------------------------------------------------------------------------------

    async def _group(self, name: str | None, arms: list[Arm], suffix: str) -> list[Outcome]:
        """Play the arms of one broker; None for arms that start their own."""
        async with AsyncExitStack() as stack:
            broker: Broker | None = None
            if name is not None:
                try:
                    broker = await stack.enter_async_context(self._provider(name, arms, suffix).open(name))
                except (UnavailableError, ImportError) as error:
                    return [self._not_played(arm, str(error), None, suffix) for arm in arms]
                self.progress.say(f"{name}: {broker.version}, at {', '.join(broker.addresses)}")
                self._versions[name] = broker.version
            return [await self._arm(arm, broker, suffix) for arm in arms]

    def _provider(self, name: str, arms: list[Arm], suffix: str) -> BrokerProvider:
        made = [topic for arm in arms for topic in self._topics(arm, suffix).values()]
        rates = (0, 0)
        if name == "kafka-strimzi":
            held = [self._resolver(arms[0])(topic) for topic in self._topics(arms[0], suffix).values()]
            rates = (
                int(sum(each.number("max_publish_rate_bytes") for each in held)),
                int(sum(each.number("max_dispatch_rate_bytes") for each in held)),
            )
        brokers = self.directory / "brokers"
        return BrokerProvider(brokers, self.given, self.embedded, rates, {name: tuple(made)})

    def _topics(self, arm: Arm, suffix: str) -> dict[str, str]:
        return topics(self.loaded.scenario, arm.client, f"{arm.door}-{suffix}")

    def _resolver(self, arm: Arm) -> Callable[[str], EffectivePolicies]:
        """Resolves the effective policies of a topic of an arm, as the gateway does."""
        directory = self.directory / "arms" / f"{arm.system}-{arm.door}"
        directory.mkdir(parents=True, exist_ok=True)
        file = directory / "policies.yaml"
        entry = {"name": "compare", "system": arm.client, "bootstrap": ["broker.invalid:1"]}
        write_file(file, entry, self.loaded.policies, directory / "state")
        read = load(file, self.plugins.policy_models, self.plugins.broker_models, {})
        config = read.config.brokers[0]
        resolver = Resolver(
            read.policies((), 1, "compare"), {**read.fields.defaults, **config.policy_defaults}
        )
        driver = self.plugins.drivers[arm.client]
        return lambda topic: resolver.resolve(driver.name_of(topic, config))

    async def _arm(self, arm: Arm, broker: Broker | None, suffix: str) -> Outcome:
        try:
            return await self._open(arm, broker, suffix)
        except (UnavailableError, ImportError, OSError) as error:
            return self._not_played(arm, str(error) or type(error).__name__, broker, suffix)

    def _plan(self, arm: Arm, way: Way, suffix: str) -> ArmPlan:
        scenario = self.loaded.scenario
        return make_plan(
            scenario if door(arm.door).judged else brief(scenario),
            arm.client,
            f"{arm.door}-{suffix}",
            run=self.run,
            system=arm.system,
            door=arm.door,
            client=way.client or arm.client,
            addresses=way.addresses,
            options=way.options,
            directory=str(self.directory / OBSERVATIONS),
        )

    def _not_played(self, arm: Arm, why: str, broker: Broker | None, suffix: str) -> Outcome:
        self.progress.end(arm.name, why)
        facts = ArmFacts(arm.system, arm.door, _label(arm, broker), why)
        if not door(arm.door).judged:
            return Outcome(facts)
        now = datetime.now(UTC)
        try:
            plan = self._plan(arm, Way(()), suffix)
            tried = trials(plan, self._resolver(arm), arm.all_judged(), Played(now, None, why))
        except (ConfigErrors, ImportError, KeyError):
            tried = []
        return Outcome(facts, tried)

    async def _open(self, arm: Arm, broker: Broker | None, suffix: str) -> Outcome:
        resolve = self._resolver(arm)
        names = self._topics(arm, suffix)
        setting = Setting(
            self.loaded,
            self.run,
            arm,
            names,
            self.directory,
            self.directory / "arms" / f"{arm.system}-{arm.door}",
            broker,
            resolve,
        )
        if broker is not None:
            await prepare_topics(broker, self.loaded.scenario, names)
        async with arm.open(setting) as way:
            plan = self._plan(arm, way, suffix)
            self.progress.begin(arm.name, plan.phases[-1].end_s + plan.drain_s)
            played, skews, notes = await self._drive(plan, way, setting.directory)
        missing = "; ".join([*notes, *way.notes])
        self.progress.end(arm.name, missing)
        facts = ArmFacts(arm.system, arm.door, _label(arm, broker), missing, played.read_until)
        if not door(arm.door).judged:
            return Outcome(facts, baselines=list(baselines(plan, resolve, played)))
        return Outcome(
            facts,
            trials(plan, resolve, arm.all_judged(), played),
            [Phase(f"{name} ({arm.name})", start, end) for name, start, end in phases(plan, played)],
            skews,
        )

    async def _drive(self, plan: ArmPlan, way: Way, directory: Path) -> tuple[Played, list[Skew], list[str]]:
        """Have the clients play their plan, in a process of their own."""
        file = directory / "plan.json"
        write_plan(plan, file)
        began = utc(time.time_ns() // 1000)
        async with Talker("the clients' process", _DRIVER, [str(file)], directory / "clients.log") as clients:
            await clients.hear("ready", _READY_S)
            skews = await _skews(plan, clients, way.process)
            done = await clients.hear("done", _SILENCE_S, self._tell)
        self.progress.at(plan.phases[-1].end_s + plan.drain_s, done["counts"])
        notes = []
        if done["foreign"]:
            notes.append(f"{done['foreign']} received messages are not the runner's")
        return Played(began, utc(done["zero_us"]), read_until=utc(done["read_until_us"])), skews, notes

    def _tell(self, line: Mapping[str, Any]) -> None:
        if "progress" in line:
            self.progress.at(line["progress"], line["counts"])


async def _skews(plan: ArmPlan, clients: Talker, gate: Talker | None) -> list[Skew]:
    theirs = await clients.clock()
    gates = await gate.clock() if gate is not None else ClockOffset(0.0, 0.0)
    return [
        Skew(
            "clients",
            plan.system,
            plan.door,
            theirs.offset_us - gates.offset_us,
            theirs.uncertainty_us + gates.uncertainty_us,
            basis="the processes of clients and gate, asked for the time before the arm; the fastest answers",
        )
    ]


def _label(arm: Arm, broker: Broker | None) -> str:
    labels = dict.fromkeys([broker.label if broker is not None else "", arm.label])
    return "; ".join(label for label in labels if label)


def estimate_s(loaded: LoadedScenario, arms: list[Arm], *, starts_brokers: bool) -> float:
    """How long a run will take about, in seconds."""
    scenario = loaded.scenario
    whole, short = ((each.duration_ms + each.drain) / 1000 for each in (scenario, brief(scenario)))
    played_s = sum((whole if door(arm.door).judged else short) + ARM_START_S for arm in arms)
    brokers = {arm.broker for arm in arms if arm.broker not in (None, "danube")}
    return played_s + (len(brokers) * BROKER_START_S if starts_brokers else 0.0)


def tidy(directory: Path) -> None:
    """Remove the data of the started brokers; their output stays."""
    for broker in (directory / "brokers").glob("*"):
        shutil.rmtree(broker / "data", ignore_errors=True)
    if os.environ.get("SLUICEGATE_KEEP_STATE") != "1":
        for state in (directory / "arms").glob("*/state"):
            shutil.rmtree(state, ignore_errors=True)
