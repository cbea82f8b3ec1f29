"""The controller's log lines: each kind at most once in 60 s for a topic."""

import logging
from collections.abc import Hashable
from typing import TYPE_CHECKING

from sluicegate.engine.bucket import SECOND_NS

if TYPE_CHECKING:
    from sluicegate.features.adaptive.settings import Settings
    from sluicegate.features.adaptive.topic import Evaluation, ThrottledTopic

EVERY_NS = 60 * SECOND_NS
_MOST_KEYS = 20_000


class OncePerMinute:
    """Limits log lines to one in 60 s for each key."""

    def __init__(self) -> None:
        self._last: dict[Hashable, int] = {}

    def passes(self, key: Hashable, now_ns: int) -> bool:
        """True if the line should be logged."""
        last = self._last.get(key)
        if last is not None and now_ns - last < EVERY_NS:
            return False
        if len(self._last) >= _MOST_KEYS:
            self._last = {known: at for known, at in self._last.items() if now_ns - at < EVERY_NS}
            if len(self._last) >= _MOST_KEYS:
                self._last.clear()
        self._last[key] = now_ns
        return True


class Transitions:
    """Logs the transitions of topics."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._once = OncePerMinute()

    def activated(
        self, topic: "ThrottledTopic", found: "Evaluation", settings: "Settings", now_ns: int
    ) -> None:
        """Log that a topic is now throttled."""
        if self._once.passes((topic.name, "activated"), now_ns):
            self._log.info(
                "[AdaptiveThrottle] ACTIVATED topic=%s %s", topic.name, _details(topic, found, settings)
            )

    def deactivated(self, topic: "ThrottledTopic", now_ns: int) -> None:
        """Log that a topic is no longer throttled."""
        if self._once.passes((topic.name, "deactivated"), now_ns):
            self._log.info("[AdaptiveThrottle] DEACTIVATED topic=%s %s", topic.name, _natural(topic))

    def would_activate(
        self, topic: "ThrottledTopic", found: "Evaluation", settings: "Settings", now_ns: int
    ) -> None:
        """Log that a topic would be throttled without observe-only."""
        if self._once.passes((topic.name, "would-activate"), now_ns):
            self._log.info(
                "[AdaptiveThrottle] OBSERVE-ONLY would-activate topic=%s %s",
                topic.name,
                _details(topic, found, settings),
            )

    def would_deactivate(self, topic: "ThrottledTopic", now_ns: int) -> None:
        """Log that a topic would no longer be throttled."""
        if self._once.passes((topic.name, "would-deactivate"), now_ns):
            self._log.info(
                "[AdaptiveThrottle] OBSERVE-ONLY would-deactivate topic=%s %s", topic.name, _natural(topic)
            )

    def clamped(
        self, topic: "ThrottledTopic", found: "Evaluation", settings: "Settings", now_ns: int
    ) -> None:
        """Log that a topic has reached its lowest rate."""
        if self._once.passes((topic.name, "clamped"), now_ns):
            self._log.warning(
                "[AdaptiveThrottle] rate clamped at the minimum floor topic=%s %s",
                topic.name,
                _details(topic, found, settings),
            )

    def topic_failed(self, name: str, error: Exception, now_ns: int) -> None:
        """Log that one topic could not be evaluated."""
        if self._once.passes((name, "failed"), now_ns):
            self._log.warning(
                "[AdaptiveThrottle] evaluation failed topic=%s error=%r", name, error, exc_info=error
            )


def _natural(topic: "ThrottledTopic") -> str:
    natural = topic.natural
    return f"naturalMsgRate={natural.messages_per_s:.1f}/s naturalByteRate={natural.bytes_per_s:.0f}/s"


def _details(topic: "ThrottledTopic", found: "Evaluation", settings: "Settings") -> str:
    quota = found.backlog_quota_bytes
    percent = f"{100 * found.backlog_bytes / quota:.1f}%" if quota > 0 else "N/A"
    factor = 1.0 - found.pressure * (1.0 - settings.min_rate_factor)
    return (
        f"{_natural(topic)} "
        f"effectiveMsgRate={found.messages_per_s}/s effectiveByteRate={found.bytes_per_s}/s "
        f"rateFactor={factor:.3f} pressureFactor={found.pressure:.3f} "
        f"memoryPressure={_pressure(found.memory_pressure)} "
        f"backlogPressure={_pressure(found.backlog_pressure)} backlogBytes={found.backlog_bytes:.0f} "
        f"backlogQuotaBytes={quota:.0f} backlogPct={percent} minRateFactor={settings.min_rate_factor:g} "
        f"maxRateChangeFactor={settings.max_rate_change_factor:g}"
    )


def _pressure(value: float) -> str:
    return f"{value:.3f}"
