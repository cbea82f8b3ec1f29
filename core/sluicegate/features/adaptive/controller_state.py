"""Stores the controller's state as a fact for `sluicegate explain`, when it has changed."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from sluicegate.broker import BrokerContext
from sluicegate.engine.bucket import SECOND_NS
from sluicegate.features.adaptive.readings import Readings
from sluicegate.features.adaptive.settings import Settings
from sluicegate.features.adaptive.topic import ThrottledTopic

KEY = "adaptive.status"
_EVERY_NS = 5 * SECOND_NS
_MOST_TOPICS = 50


class Status:
    """Stores the controller's state, at most every 5 s.

    :param context: the broker's context, which stores the fact.
    """

    def __init__(self, context: BrokerContext) -> None:
        self._context = context
        self._last: dict[str, Any] = {}
        self._stored_ns: int | None = None

    def store(
        self,
        memory: float,
        readings: Readings,
        settings: Settings,
        refused: str,
        topics: Sequence[ThrottledTopic],
    ) -> None:
        """Store the state at the end of a cycle, if it has changed.

        :param memory: memory pressure.
        :param readings: the sources.
        :param settings: the effective settings.
        :param refused: why the current policies were refused; empty if they were not.
        :param topics: all topics.
        """
        now_ns = self._context.now_ns()
        if self._stored_ns is not None and now_ns - self._stored_ns < _EVERY_NS:
            return
        throttled = [topic for topic in topics if topic.active or topic.would]
        state = {
            "observe_only": settings.observe_only,
            "memory_pressure": round(memory, 2),
            "throttled": sum(topic.active for topic in throttled),
            "would_throttle": sum(topic.would for topic in throttled),
            "settings_refused": refused,
            "sources_unknown": ", ".join(each.source.name for each in readings.all if each.problem),
            "settings": asdict(settings),
            "sources": {each.source.name: each.problem or "known" for each in readings.all},
            "topics": {topic.name: _numbers(topic) for topic in throttled[:_MOST_TOPICS]},
        }
        if state != self._last:
            self._last = state
            self._stored_ns = now_ns
            self._context.remember(KEY, json.dumps({"at_ms": self._context.wall_ms(), **state}))


def _numbers(topic: ThrottledTopic) -> dict[str, float]:
    return {
        "natural_messages_per_s": round(topic.natural.messages_per_s, 1),
        "natural_bytes_per_s": round(topic.natural.bytes_per_s),
        "messages_per_s": topic.messages_per_s,
        "bytes_per_s": topic.bytes_per_s,
        "backlog_pressure": round(topic.memory_and_backlog[1], 2),
    }
