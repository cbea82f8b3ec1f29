"""The controller's log lines about topics: each kind at most once in 60 s for a topic."""

import logging
from typing import TYPE_CHECKING

from sluicegate.engine.bucket import SECOND_NS
from sluicegate.pacing.log_throttle import LineLimiter

if TYPE_CHECKING:
    from sluicegate.features.adaptive.evaluated import EvaluatedTopic, Evaluation
    from sluicegate.features.adaptive.settings import Settings

EVERY_NS = 60 * SECOND_NS

ACTIVATED = "ACTIVATED"
"""The topic is now throttled."""
DEACTIVATED = "DEACTIVATED"
WOULD_ACTIVATE = "OBSERVE-ONLY would-activate"
WOULD_DEACTIVATE = "OBSERVE-ONLY would-deactivate"
CLAMPED = "rate clamped at the minimum floor"
"""The topic has reached its lowest rate."""


class TransitionLog:
    """Logs the transitions of topics."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._line_limiter = LineLimiter(EVERY_NS)

    def began(
        self,
        transition: str,
        topic: "EvaluatedTopic",
        evaluation: "Evaluation",
        settings: "Settings",
        now_ns: int,
    ) -> None:
        """Log a transition under pressure: ACTIVATED, WOULD_ACTIVATE or CLAMPED."""
        if self._line_limiter.passes((topic.name, transition), now_ns) is not None:
            level = logging.WARNING if transition == CLAMPED else logging.INFO
            details = _details(topic, evaluation, settings)
            self._log.log(level, "[AdaptiveThrottle] %s topic=%s %s", transition, topic.name, details)

    def ended(self, transition: str, topic: "EvaluatedTopic", now_ns: int) -> None:
        """Log DEACTIVATED or WOULD_DEACTIVATE."""
        if self._line_limiter.passes((topic.name, transition), now_ns) is not None:
            self._log.info("[AdaptiveThrottle] %s topic=%s %s", transition, topic.name, _natural(topic))

    def topic_failed(self, name: str, error: Exception, now_ns: int) -> None:
        """Log that one topic could not be evaluated."""
        if self._line_limiter.passes((name, "failed"), now_ns) is not None:
            self._log.warning(
                "[AdaptiveThrottle] evaluation failed topic=%s error=%r", name, error, exc_info=error
            )


def _natural(topic: "EvaluatedTopic") -> str:
    natural = topic.natural
    return f"naturalMsgRate={natural.messages_per_s:.1f}/s naturalByteRate={natural.bytes_per_s:.0f}/s"


def _details(topic: "EvaluatedTopic", evaluation: "Evaluation", settings: "Settings") -> str:
    quota = evaluation.backlog_quota_bytes
    percent = f"{100 * evaluation.backlog_bytes / quota:.1f}%" if quota > 0 else "N/A"
    factor = 1.0 - evaluation.pressure * (1.0 - settings.min_rate_factor)
    return (
        f"{_natural(topic)} "
        f"effectiveMsgRate={evaluation.messages_per_s}/s effectiveByteRate={evaluation.bytes_per_s}/s "
        f"rateFactor={factor:.3f} pressureFactor={evaluation.pressure:.3f} "
        f"memoryPressure={evaluation.memory_pressure:.3f} "
        f"backlogPressure={evaluation.backlog_pressure:.3f} backlogBytes={evaluation.backlog_bytes:.0f} "
        f"backlogQuotaBytes={quota:.0f} backlogPct={percent} minRateFactor={settings.min_rate_factor:g} "
        f"maxRateChangeFactor={settings.max_rate_change_factor:g}"
    )
