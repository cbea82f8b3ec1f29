"""Stores the controller's state as a fact for `sluicegate explain`, when it has changed."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from typing import Any

from sluicegate.broker import BrokerContext
from sluicegate.engine.bucket import SECOND_NS
from sluicegate.features.adaptive.readings import SourceReading
from sluicegate.features.adaptive.settings import Settings
from sluicegate.features.adaptive.standing import Standing

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
        readings: Sequence[SourceReading],
        settings: Settings,
        refused: str,
        throttled: Mapping[str, Standing],
    ) -> None:
        """Store the state at the end of a cycle, if it has changed.

        :param memory: memory pressure.
        :param readings: the sources that this worker reads.
        :param settings: the effective settings.
        :param refused: why the current policies were refused; empty if they were not.
        :param throttled: the topics that are throttled, or would be, by name.
        """
        now_ns = self._context.now_ns()
        if self._stored_ns is not None and now_ns - self._stored_ns < _EVERY_NS:
            return
        state = {
            "observe_only": settings.observe_only,
            "memory_pressure": round(memory, 2),
            "throttled": sum(topic.active for topic in throttled.values()),
            "would_throttle": sum(topic.would for topic in throttled.values()),
            "settings_refused": refused,
            "sources_unknown": ", ".join(each.source.name for each in readings if each.problem),
            "settings": asdict(settings),
            "sources": {each.source.name: each.problem or "known" for each in readings},
            "topics": {name: _numbers(throttled[name]) for name in islice(throttled, _MOST_TOPICS)},
        }
        if state != self._last:
            self._last = state
            self._stored_ns = now_ns
            self._context.remember(KEY, json.dumps({"at_ms": self._context.wall_ms(), **state}))


def _numbers(topic: Standing) -> dict[str, float]:
    return {
        "natural_messages_per_s": round(topic.natural_messages_per_s, 1),
        "natural_bytes_per_s": round(topic.natural_bytes_per_s),
        "messages_per_s": topic.messages_per_s,
        "bytes_per_s": topic.bytes_per_s,
        "backlog_pressure": round(topic.backlog_pressure, 2),
    }
