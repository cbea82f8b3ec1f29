"""How one worker of a fleet evaluates the topics of all, and the others apply what it found."""

from collections.abc import Mapping
from dataclasses import replace

from sluicegate.broker import BrokerContext
from sluicegate.engine.task import SharedTask
from sluicegate.features.adaptive.controller import AdaptiveController
from sluicegate.features.adaptive.evaluated import NO_BACKLOG, Change
from sluicegate.features.adaptive.fleet_ear import FleetEar
from sluicegate.features.adaptive.fleet_rates import WorkerReport
from sluicegate.features.adaptive.settings import Settings
from sluicegate.features.adaptive.standing import FleetStanding, Standing
from sluicegate.features.adaptive.topic import ThrottledTopic


class FleetThrottling(SharedTask):
    """What the controllers of a fleet tell each other.

    Each tells what its worker passes and how full its memory is. The leader evaluates the sum of it, with its
    own settings and readings of backlogs. The others apply its targets, so each limit is one for all.

    :param context: the broker's context.
    :param controller: of this worker.
    """

    def __init__(self, context: BrokerContext, controller: AdaptiveController) -> None:
        self._context = context
        self._controller = controller
        self._ear = FleetEar(context.log)
        self._reports = 0

    async def tell(self) -> str:
        """What passed here of each topic since the last call, and the memory in use."""
        controller = self._controller
        memory = await controller.read_memory()
        now_ns = self._context.now_ns()
        measured = ((topic.name, topic.measured(now_ns)) for topic in controller.topics)
        passed = {name: each for name, each in measured if each is not None and each.traffic}
        interval_s = controller.interval_ms() / 1000
        report = WorkerReport(self._reports, interval_s, memory, self._reports == 0, passed)
        self._reports += 1
        controller.fleet.own = report
        return report.text()

    def hear(self, reports: Mapping[str, str] | None) -> None:
        """Sum up what all pass; without the store no natural rate is learned of what passes here alone."""
        fleet = self._controller.fleet
        fleet.rates = None if reports is None else self._ear.hear(reports, fleet.own, self._context.now_ns())

    def findings(self) -> str:
        """How all topics stand after the last run."""
        return self._controller.fleet.standing.text()

    def take(self, findings: str, age_s: float) -> None:
        """Apply how all topics stand by the leader's evaluation.

        :param age_s: how old it is: the time of the last evaluation in metrics.
        :raises ValueError: if it cannot be read; limits stay as they are.
        """
        standing = FleetStanding.read(findings)
        controller, now_ns = self._controller, self._context.now_ns()
        controller.fleet.follow(standing)
        settings = replace(controller.settings(), observe_only=standing.observe_only)
        present, stale = controller.split()
        changes = []
        for topic in present:
            change = self._change(topic, standing, settings, now_ns)
            if change is not None:
                changes.append((topic, change))
        controller.apply(changes, stale)
        controller.took(standing.memory_pressure, settings, age_s)

    def _change(
        self, topic: ThrottledTopic, standing: FleetStanding, settings: Settings, now_ns: int
    ) -> Change | None:
        as_told = standing.topics.get(topic.name)
        if as_told is None and standing.is_cut:
            topic.begin(own=True)
            return self._controller.decide(topic, standing.memory_pressure, NO_BACKLOG, settings, now_ns)
        topic.adopt(as_told or Standing(), standing.memory_pressure)
        return topic.change(now_ns)
