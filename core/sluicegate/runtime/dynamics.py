"""Plugin parts that follow the state of a broker: factors, pressure sources and tasks."""

import json
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from sluicegate.engine.factors import Factor
from sluicegate.engine.faults import CAUGHT, several
from sluicegate.engine.pressure import PressureSource
from sluicegate.engine.task import Task
from sluicegate.runtime.context import GatewayContext
from sluicegate.runtime.plugins import Implementation, Plugins
from sluicegate.runtime.shared_runs import TurnsElsewhere
from sluicegate.runtime.tasks import TaskThread

FACT = "factor."
"""Prefix of the facts that `sluicegate explain` reads factors from."""
_SECOND_NS = 1_000_000_000
_RETELL_NS = 60 * _SECOND_NS
"""How often the fact of an unchanged factor is stored again, as a sign of life."""
_BETWEEN_NS = 5 * _SECOND_NS
"""How often the fact of a changing factor is stored, unless it starts or stops restricting or pausing."""

Offered = TypeVar("Offered")


class Dynamics:
    """Asks the hooks of one broker, runs the tasks, and publishes the factors.

    :param context: the broker's gateway.
    :param plugins: all plugins of the gateway.
    """

    def __init__(self, context: GatewayContext, plugins: Plugins) -> None:
        self.context = context
        self._plugins = plugins
        self._tasks: TaskThread | None = None
        self._stored: dict[str, tuple[float, str, bool]] = {}
        self._stored_ns: dict[str, int] = {}

    def start(self, turns: TurnsElsewhere | None = None) -> TaskThread | None:
        """Ask for factors, pressure sources and tasks, in this order, and begin with the tasks.

        :param turns: what workers tell each other of shared tasks; None if nothing is shared.
        :return: the tasks' thread, whose first runs are to be waited for; None if there are no tasks.
        """
        context = self.context
        self._each("sluicegate_quota_factors", Factor, lambda _, factor: context.factors.add(factor))
        self._forget_gone()
        self._each(
            "sluicegate_pressure_sources",
            PressureSource,
            lambda _, source: context.pressure_sources.append(source),
        )
        tasks: dict[str, tuple[str, Task]] = {}

        def add(plugin: str, task: Task) -> None:
            if task.name in tasks:
                raise ValueError(f"there is a task {task.name!r} already, expected another name")
            tasks[task.name] = (plugin, task)

        self._each("sluicegate_tasks", Task, add)
        self.publish(context.now_ns())
        if tasks:
            self._tasks = TaskThread(
                list(tasks.values()),
                context.metrics,
                lambda plugin, text: context.apply(lambda: context.fault(plugin, text)),
                context.wall_ms,
                context.broker,
                turns,
            )
            self._tasks.start()
        return self._tasks

    def tick(self, now_ns: int) -> None:
        """Once a second: publish the factors, and log a task that blocks all others.

        :param now_ns: monotonic time.
        """
        self.publish(now_ns)
        if self._tasks is not None:
            self._tasks.watch(now_ns)

    def stop(self) -> None:
        """End the tasks; may take some seconds if one of them blocks."""
        if self._tasks is not None:
            self._tasks.stop()
            self._tasks = None

    def publish(self, now_ns: int) -> None:
        """Bring metrics and facts of the factors up to date."""
        metrics = self.context.metrics
        for factor in self.context.factors:
            metrics.gauge(
                "sluicegate_quota_factor", "What a factor leaves of every quota, 0 to 1.", ("factor",)
            ).set(factor.value, factor.name)
            metrics.gauge(
                "sluicegate_quota_factor_known", "0 while data for a factor is missing.", ("factor",)
            ).set(factor.known, factor.name)
            self._remember(factor, now_ns)

    def _remember(self, factor: Factor, now_ns: int) -> None:
        now = (factor.value, factor.why, factor.known)
        before = self._stored.get(factor.name)
        if before is not None:
            age_ns = now_ns - self._stored_ns[factor.name]
            is_news = before[2] != now[2] or (before[0] != now[0] and not 0 < before[0] * now[0] < 1)
            is_news = is_news or (before[0] == 1) != (now[0] == 1)
            if not is_news and age_ns < (_BETWEEN_NS if before != now else _RETELL_NS):
                return
        self._stored[factor.name] = now
        self._stored_ns[factor.name] = now_ns
        fact = {
            "value": factor.value,
            "why": factor.why,
            "known": factor.known,
            "at_ms": self.context.wall_ms(),
        }
        self.context.remember(FACT + factor.name, json.dumps(fact))

    def _forget_gone(self) -> None:
        """Clear the facts of factors that no plugin provides now: they restrict nothing."""
        for key in self.context.recall(FACT):
            if self.context.factors.get(key.removeprefix(FACT)) is None:
                self.context.remember(key, "null")

    def _each(self, hook: str, kind: type[Offered], take: Callable[[str, Offered], None]) -> None:
        """Take what all plugins offer by their hooks, then what the broker's driver does."""
        for ask in self._plugins.implementations(hook):
            self._ask(ask.plugin, hook, partial(_by_name, ask), kind, take)
        driven = self._plugins.driver_of(self.context.system)
        if driven is not None:
            plugin, driver = driven
            asks = {
                "sluicegate_quota_factors": driver.quota_factors,
                "sluicegate_pressure_sources": driver.pressure_sources,
                "sluicegate_tasks": driver.tasks,
            }
            self._ask(plugin, f"{hook.removeprefix('sluicegate_')}()", asks[hook], kind, take)

    def _ask(
        self,
        plugin: str,
        name: str,
        ask: Callable[[GatewayContext], object],
        kind: type[Offered],
        take: Callable[[str, Offered], None],
    ) -> None:
        try:
            for each in several(ask(self.context.view(plugin)), name, kind):
                take(plugin, each)
        except CAUGHT as error:  # whatever a plugin raises must not stop traffic
            self.context.fault(plugin, error)


def _by_name(ask: Implementation, view: GatewayContext) -> object:
    return ask(context=view)
