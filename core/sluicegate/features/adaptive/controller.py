"""The controller of one broker: reads the pressures, evaluates each topic, and applies the changes.

Nothing else changes its limits, which it sets and releases through `BrokerContext.apply`. If a cycle fails,
all limits stay in effect. What workers of a fleet tell each other is in `fleet_throttling`.
"""

import asyncio
from collections.abc import Sequence
from functools import partial

from sluicegate.broker import BrokerContext
from sluicegate.engine.check import Check
from sluicegate.engine.pressure import Backlog
from sluicegate.engine.state import TopicState
from sluicegate.features.adaptive.controller_metrics import ControllerMetrics
from sluicegate.features.adaptive.controller_state import Status
from sluicegate.features.adaptive.evaluated import NO_BACKLOG, Change, EvaluatedTopic, Evaluation, Step
from sluicegate.features.adaptive.fleet import Fleet
from sluicegate.features.adaptive.formulas import linear_pressure
from sluicegate.features.adaptive.logs import (
    ACTIVATED,
    CLAMPED,
    DEACTIVATED,
    EVERY_NS,
    WOULD_ACTIVATE,
    WOULD_DEACTIVATE,
    TransitionLog,
)
from sluicegate.features.adaptive.readings import Readings, SourceReading
from sluicegate.features.adaptive.settings import ENABLED, Settings
from sluicegate.features.adaptive.topic import ThrottledTopic
from sluicegate.model import EffectivePolicies
from sluicegate.pacing.log_throttle import LineLimiter

_SLICE = 100
"""Topics that are evaluated, or changed, before the event loop runs other work."""
_MS_NS = 1_000_000


class AdaptiveController:
    """Reads the pressures of one broker periodically and adjusts the publish limits of its topics.

    A cycle that fails changes no limit. `checks` runs on the thread that owns the gates, cycles in a task.

    :param context: the broker's context.
    """

    def __init__(self, context: BrokerContext) -> None:
        self._context = context
        self.fleet = Fleet(self._names_of)
        """The topics of all workers that share limits with this one; empty if none do."""
        self._topics: dict[str, ThrottledTopic] = {}
        self._settings = Settings()
        self._refused = ""
        self._all_readings: Readings | None = None
        self._unread: Sequence[SourceReading] | None = None
        """The sources that the next cycle reads; None for all."""
        self._metrics = ControllerMetrics(context.metrics)
        self._transitions = TransitionLog(context.log)
        self._status = Status(context)
        self._line_limiter = LineLimiter(EVERY_NS)

    # -- for the thread that owns the gates -------------------------------------------------------

    def checks(self, state: TopicState, policies: EffectivePolicies) -> Sequence[Check]:
        """The checks of a topic's gate, which are active while the topic is throttled."""
        topic = self._topics.get(state.topic.full)
        if topic is None or topic.state is not state:
            topic = ThrottledTopic(state, policies)
            standing = self.fleet.standing
            if topic.is_shared and topic.name in standing.topics:
                topic.adopt(standing.topics[topic.name], standing.memory_pressure)
                change = topic.change(state.now_ns)
                if change is not None:
                    change()
            self._topics[topic.name] = topic
        else:
            topic.limiter.update(policies, state.now_ns)
        return topic.limiter.checks()

    def _forget(self, topics: Sequence[ThrottledTopic]) -> None:
        for topic in topics:
            if self._topics.get(topic.name) is topic:
                del self._topics[topic.name]

    def _apply_changes(self, changes: Sequence[tuple[ThrottledTopic, Change]]) -> None:
        for topic, change in changes:
            try:
                change()
            except Exception as error:  # noqa: BLE001 - one topic must not stop the others
                self._topic_failed(topic, error)

    # -- for the task -----------------------------------------------------------------------------

    @property
    def topics(self) -> Sequence[ThrottledTopic]:
        """The topics under the controller."""
        return tuple(self._topics.values())

    @property
    def _readings(self) -> Readings:
        if self._all_readings is None:  # created here, once all plugins have registered their sources
            self._all_readings = Readings(self._context.pressure_sources, self._context.log)
        return self._all_readings

    def interval_ms(self) -> int:
        """Milliseconds between two cycles, by the current policies."""
        return self.settings().interval_ms

    async def read_memory(self) -> float:
        """Read the memory in use, a fraction of its limit; the next cycle then reads the backlogs alone."""
        readings = self._readings
        await readings.refresh(self.interval_ms(), self._context.now_ns(), readings.of_memory)
        self._unread = readings.of_backlogs
        return readings.memory

    def split(self) -> tuple[Sequence[ThrottledTopic], Sequence[ThrottledTopic]]:
        """The topics of this worker, and those whose states are gone."""
        states = self._context.states
        present: list[ThrottledTopic] = []
        stale: list[ThrottledTopic] = []
        for topic in self.topics:
            (present if states.get(topic.name) is topic.state else stale).append(topic)
        return present, stale

    def apply(
        self, changes: Sequence[tuple[ThrottledTopic, Change]], stale: Sequence[ThrottledTopic]
    ) -> None:
        """Carry out changes on the thread that owns the gates, and forget topics."""
        for start in range(0, len(changes), _SLICE):
            self._context.apply(partial(self._apply_changes, changes[start : start + _SLICE]))
        if stale:
            self._context.apply(partial(self._forget, stale))

    def took(self, memory: float, settings: Settings, age_s: float) -> None:
        """Publish what another worker has found.

        :param memory: memory pressure.
        :param settings: of the leader, as far as they are known.
        :param age_s: how long ago it was found.
        """
        at_ms = self._context.wall_ms() - int(age_s * 1000)
        self._metrics.evaluated.set(at_ms)
        self._metrics.succeeded.set(at_ms)
        self._publish(memory, self._readings.of_memory, settings)

    async def run(self) -> None:
        """Run one cycle.

        :raises Exception: any error, after it was counted and logged; limits stay as they are.
        """
        context, metrics = self._context, self._metrics
        began_ns = context.now_ns()
        try:
            await self._cycle(began_ns)
        except Exception:
            metrics.failures.inc()
            context.log.exception("[AdaptiveThrottle] Evaluation cycle failed")
            raise
        else:
            metrics.succeeded.set(context.wall_ms())
        finally:
            metrics.duration.set((context.now_ns() - began_ns) / _MS_NS)
            metrics.evaluated.set(context.wall_ms())

    async def _cycle(self, began_ns: int) -> None:
        settings, readings = self.settings(), self._readings
        await readings.refresh(settings.interval_ms, began_ns, self._unread)
        self._unread = None
        used = max(readings.memory, self.fleet.memory)
        memory = linear_pressure(used, settings.memory_low, settings.memory_high)
        changes: list[tuple[ThrottledTopic, Change]] = []
        present, stale = self.split()
        try:
            await self._evaluate(present, stale, memory, settings, changes)
        finally:  # apply the changes decided so far, even after an error
            self.apply(changes, stale)
        self.fleet.end(memory, observe_only=settings.observe_only)
        self._publish(memory, readings.all, settings)

    async def _evaluate(
        self,
        present: Sequence[ThrottledTopic],
        stale: Sequence[ThrottledTopic],
        memory: float,
        settings: Settings,
        changes: list[tuple[ThrottledTopic, Change]],
    ) -> None:
        readings, now_ns = self._readings, self._context.now_ns()
        for index, topic in enumerate((*present, *self.fleet.begin(present, stale)), 1):
            try:
                backlog = readings.backlog(topic.names) or NO_BACKLOG
                change = self.decide(topic, memory, backlog, settings, now_ns)
            except Exception as error:  # noqa: BLE001 - one topic must not stop the others
                self._topic_failed(topic, error)
            else:
                if change is not None and isinstance(topic, ThrottledTopic):
                    changes.append((topic, change))
            if index % _SLICE == 0:
                await asyncio.sleep(0)

    def decide(
        self, topic: EvaluatedTopic, memory: float, backlog: Backlog, settings: Settings, now_ns: int
    ) -> Change | None:
        """Evaluate one topic; return the change for its limiter, if any."""
        was_active = topic.active
        if settings.observe_only and was_active:
            topic.rest()
            self._transitions.ended(DEACTIVATED, topic, now_ns)
        elif topic.would and not settings.observe_only:
            topic.rest()
        passed = self.fleet.passed(topic)
        evaluation = topic.evaluate(memory, backlog, settings, now_ns, passed, learn=not was_active)
        if evaluation.step is Step.THROTTLE:
            self._throttle(topic, evaluation, settings, now_ns)
        elif evaluation.step is Step.RELEASE:
            self._transitions.ended(DEACTIVATED if topic.active else WOULD_DEACTIVATE, topic, now_ns)
            topic.rest()
        return topic.change(now_ns)

    def _throttle(
        self, topic: EvaluatedTopic, evaluation: Evaluation, settings: Settings, now_ns: int
    ) -> None:
        topic.messages_per_s, topic.bytes_per_s = evaluation.messages_per_s, evaluation.bytes_per_s
        if settings.observe_only:
            topic.would = True
            self._transitions.began(WOULD_ACTIVATE, topic, evaluation, settings, now_ns)
        elif not topic.active:
            topic.active = True
            self._metrics.activations.inc()
            self._transitions.began(ACTIVATED, topic, evaluation, settings, now_ns)
        elif topic.at_floor(evaluation, settings):
            self._transitions.began(CLAMPED, topic, evaluation, settings, now_ns)

    def _names_of(self, topic: str) -> tuple[str, ...]:
        driver = self._context.driver
        return (topic,) if driver is None else driver.name_of(topic, self._context.config).all

    def settings(self) -> Settings:
        """The current settings; if they conflict, the last good ones."""
        context, policies = self._context, self._context.policies
        try:
            settings = Settings.of(policies)
        except ValueError as error:
            if str(error) != self._refused:
                self._refused = str(error)
                self._metrics.refused.inc()
                context.log.error(
                    "[AdaptiveThrottle] settings refused, the last ones stay in effect: %s", error
                )
            return self._settings
        self._refused = ""
        self._settings = settings
        is_disabled = not policies.flag(ENABLED)
        if is_disabled and self._line_limiter.passes(ENABLED, context.now_ns()) is not None:
            context.log.warning("restart the gateway to apply: %s false", ENABLED)
        return settings

    def _topic_failed(self, topic: EvaluatedTopic, error: Exception) -> None:
        self._metrics.topic_failures.inc()
        self._transitions.topic_failed(topic.name, error, self._context.now_ns())

    def _publish(self, memory: float, readings: Sequence[SourceReading], settings: Settings) -> None:
        metrics, topics = self._metrics, self.topics
        throttled = self.fleet.throttled(topics)
        metrics.memory.set(memory)
        metrics.active.set(sum(topic.active for topic in throttled.values()))
        metrics.would.set(sum(topic.would for topic in throttled.values()))
        metrics.observing.set(float(settings.observe_only))
        metrics.read(readings)
        metrics.topics(topics, enabled=settings.topic_metrics)
        self._status.store(memory, readings, settings, self._refused, throttled)
