"""The controller of one broker: reads the pressures, evaluates each topic, and applies the changes.

It controls only this gateway and does not coordinate with others. Nothing else changes its limits, which it
sets and releases through `BrokerContext.apply`. If a cycle fails, all limits stay in effect.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from sluicegate.broker import BrokerContext
from sluicegate.engine.check import Check
from sluicegate.engine.pressure import Backlog
from sluicegate.engine.state import TopicState
from sluicegate.features.adaptive.controller_metrics import ControllerMetrics
from sluicegate.features.adaptive.controller_state import Status
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
from sluicegate.features.adaptive.readings import Readings
from sluicegate.features.adaptive.settings import ENABLED, Settings
from sluicegate.features.adaptive.topic import NO_BACKLOG, Evaluation, Step, ThrottledTopic
from sluicegate.model import EffectivePolicies
from sluicegate.pacing.log_throttle import LineLimiter

_SLICE = 100
"""Topics that are evaluated, or changed, before the event loop runs other work."""
_MS_NS = 1_000_000

Change: TypeAlias = Callable[[], None]
"""Limits or releases one topic, on the thread that owns the gates."""


class AdaptiveController:
    """Reads the pressures of one broker periodically and adjusts the publish limits of its topics.

    A cycle that fails changes no limit. `checks` runs on the thread that owns the gates, cycles in a task.

    :param context: the broker's context.
    """

    def __init__(self, context: BrokerContext) -> None:
        self._context = context
        self._topics: dict[str, ThrottledTopic] = {}
        self._settings = Settings()
        self._refused = ""
        self._readings: Readings | None = None
        self._metrics = ControllerMetrics(context.metrics)
        self._transitions = TransitionLog(context.log)
        self._status = Status(context)
        self._line_limiter = LineLimiter(EVERY_NS)

    # -- for the thread that owns the gates -------------------------------------------------------

    def checks(self, state: TopicState, policies: EffectivePolicies) -> Sequence[Check]:
        """The checks of a topic's gate, which are active while the topic is throttled."""
        topic = self._topics.get(state.topic.full)
        if topic is None or topic.state is not state:
            topic = self._topics[state.topic.full] = ThrottledTopic(state, policies)
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

    def interval_ms(self) -> int:
        """Milliseconds between two cycles, by the current policies."""
        return self._read_settings().interval_ms

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
        settings = self._read_settings()
        if self._readings is None:  # created here, once all plugins have registered their sources
            self._readings = Readings(self._context.pressure_sources, self._context.log)
        readings = self._readings
        await readings.refresh(settings.interval_ms, began_ns)
        memory = linear_pressure(readings.memory, settings.memory_low, settings.memory_high)
        changes: list[tuple[ThrottledTopic, Change]] = []
        try:
            await self._evaluate(memory, readings, settings, changes)
        finally:  # apply the changes decided so far, even after an error
            for start in range(0, len(changes), _SLICE):
                self._context.apply(partial(self._apply_changes, changes[start : start + _SLICE]))
        self._publish(memory, readings, settings)

    async def _evaluate(
        self,
        memory: float,
        readings: Readings,
        settings: Settings,
        changes: list[tuple[ThrottledTopic, Change]],
    ) -> None:
        states, now_ns = self._context.states, self._context.now_ns()
        stale = []
        for index, topic in enumerate(self.topics, 1):
            if states.get(topic.name) is not topic.state:
                stale.append(topic)
                continue
            try:
                backlog = readings.backlog(topic.state.topic.all) or NO_BACKLOG
                change = self._decide(topic, memory, backlog, settings, now_ns)
            except Exception as error:  # noqa: BLE001 - one topic must not stop the others
                self._topic_failed(topic, error)
            else:
                if change is not None:
                    changes.append((topic, change))
            if index % _SLICE == 0:
                await asyncio.sleep(0)
        if stale:
            self._context.apply(partial(self._forget, stale))

    def _decide(
        self, topic: ThrottledTopic, memory: float, backlog: Backlog, settings: Settings, now_ns: int
    ) -> Change | None:
        """Evaluate one topic; return the change for its limiter, if any."""
        was_active = topic.active
        lifted = settings.observe_only and was_active
        if lifted:
            self._rest(topic)
            self._transitions.ended(DEACTIVATED, topic, now_ns)
        elif topic.would and not settings.observe_only:
            self._rest(topic)
        evaluation = topic.evaluate(memory, backlog, settings, now_ns, learn=not was_active)
        change: Change | None = None
        if evaluation.step is Step.THROTTLE:
            change = self._throttle(topic, evaluation, settings, now_ns)
        elif evaluation.step is Step.RELEASE:
            change = self._release(topic, now_ns)
        return partial(topic.limiter.release, now_ns) if lifted else change

    def _throttle(
        self, topic: ThrottledTopic, evaluation: Evaluation, settings: Settings, now_ns: int
    ) -> Change | None:
        topic.messages_per_s, topic.bytes_per_s = evaluation.messages_per_s, evaluation.bytes_per_s
        if settings.observe_only:
            topic.would = True
            self._transitions.began(WOULD_ACTIVATE, topic, evaluation, settings, now_ns)
            return None
        if not topic.active:
            topic.active = True
            self._metrics.activations.inc()
            self._transitions.began(ACTIVATED, topic, evaluation, settings, now_ns)
        elif topic.at_floor(evaluation, settings):
            self._transitions.began(CLAMPED, topic, evaluation, settings, now_ns)
        why = (
            f"memory pressure {evaluation.memory_pressure:.2f}, "
            f"backlog pressure {evaluation.backlog_pressure:.2f}"
        )
        rates = (evaluation.messages_per_s, evaluation.bytes_per_s, why)
        if rates == topic.applied:
            return None
        topic.applied = rates
        natural = (topic.natural.messages_per_s, topic.natural.bytes_per_s)
        return partial(topic.limiter.limit, *rates[:2], natural, why, now_ns)

    def _release(self, topic: ThrottledTopic, now_ns: int) -> Change | None:
        was_active = topic.active
        self._rest(topic)
        if not was_active:
            self._transitions.ended(WOULD_DEACTIVATE, topic, now_ns)
            return None
        self._transitions.ended(DEACTIVATED, topic, now_ns)
        return partial(topic.limiter.release, now_ns)

    @staticmethod
    def _rest(topic: ThrottledTopic) -> None:
        topic.active = topic.would = False
        topic.messages_per_s = topic.bytes_per_s = 0
        topic.applied = None

    def _read_settings(self) -> Settings:
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

    def _topic_failed(self, topic: ThrottledTopic, error: Exception) -> None:
        self._metrics.topic_failures.inc()
        self._transitions.topic_failed(topic.name, error, self._context.now_ns())

    def _publish(self, memory: float, readings: Readings, settings: Settings) -> None:
        metrics, topics = self._metrics, self.topics
        metrics.memory.set(memory)
        metrics.active.set(sum(topic.active for topic in topics))
        metrics.would.set(sum(topic.would for topic in topics))
        metrics.observing.set(float(settings.observe_only))
        metrics.read(readings)
        metrics.topics(topics, enabled=settings.topic_metrics)
        self._status.store(memory, readings, settings, self._refused, topics)
