"""The sink of all gates of a broker: passes decisions to the decision log, and logs them.

Lines are thinned out: one a second for each topic and policy, with a count of those left out. Rate limiting
that continues is logged twice: when it starts, and once more when it has lasted.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from sluicegate.engine.gate import DecisionSink, Gate
from sluicegate.log_throttle import LineLimiter
from sluicegate.model import Action, Decision, Operation

log = logging.getLogger("sluicegate.policy")

_PAUSE_NS = 2_000_000_000
"""Limiting has ended once no operation was held for this long; the next one starts it again."""
_EPISODES_LIMIT = 10_000


@dataclass(slots=True)
class _Episode:
    """Continuing rate limiting of one topic by one policy."""

    since_ns: int
    last_ns: int
    held: int = 0
    is_reported: bool = False


class Recording:
    """A `DecisionSink` that logs.

    :param sink: takes the decisions afterwards.
    :param sustained_ns: rate limiting that lasts this long is logged as a warning.
    :param show_ids: False to keep decision ids from clients; the log and the journal have them anyway.
    """

    allowed: Callable[[Gate, Operation, int], None]
    """The next sink's own: nothing is added to the way of an allowed message."""

    def __init__(
        self, sink: DecisionSink, sustained_ns: int = 10_000_000_000, *, show_ids: bool = True
    ) -> None:
        self.allowed = sink.allowed
        self._sink = sink
        self._sustained_ns = sustained_ns
        self._show_ids = show_ids
        self._line_limiter = LineLimiter()
        self._episodes: dict[tuple[str, str], _Episode] = {}

    def decided(self, gate: Gate, op: Operation, decision: Decision, now_ns: int) -> Decision:
        """Record a decision that is not a plain allow."""
        stamped = self._sink.decided(gate, op, decision, now_ns)
        if stamped.reasons:
            if stamped.action is Action.DELAY:
                self._held(op, stamped, now_ns)
            elif stamped.action is not Action.REWRITE:
                self._refused(op, stamped, now_ns)
        return stamped if self._show_ids else replace(stamped, id="")

    def _refused(self, op: Operation, decision: Decision, now_ns: int) -> None:
        reason = decision.reasons[0]
        left_out = self._line_limiter.passes((reason.policy, op.topic), now_ns)
        if left_out is not None:
            log.warning(
                "policy violation: %s",
                reason.text,
                extra={
                    "action": f"would_{decision.action}" if decision.observed else str(decision.action),
                    "policy": reason.policy,
                    "policy_level": reason.level,
                    "topic": op.topic,
                    "client": op.client,
                    "principal": op.principal,
                    "decision": decision.id,
                    "left_out": left_out,
                },
            )

    def _held(self, op: Operation, decision: Decision, now_ns: int) -> None:
        policy = decision.reasons[0].policy
        episode = self._episodes.get((policy, op.topic))
        if episode is None or now_ns - episode.last_ns > _PAUSE_NS:
            if len(self._episodes) >= _EPISODES_LIMIT:
                self._episodes.clear()
            self._episodes[policy, op.topic] = _Episode(now_ns, now_ns, 1)
            self._log_episode(logging.INFO, "rate limiting started", op, decision, now_ns)
            return
        episode.last_ns = now_ns
        episode.held += 1
        if not episode.is_reported and now_ns - episode.since_ns >= self._sustained_ns:
            episode.is_reported = True
            seconds = (now_ns - episode.since_ns) / 1e9
            text = f"rate limiting sustained for {seconds:.0f} s, {episode.held} operations held"
            self._log_episode(logging.WARNING, text, op, decision, now_ns)

    def _log_episode(self, level: int, text: str, op: Operation, decision: Decision, now_ns: int) -> None:
        reason = decision.reasons[0]
        if self._line_limiter.passes((text[:24], reason.policy, op.topic), now_ns) is not None:
            log.log(
                level,
                text,
                extra={
                    "policy": reason.policy,
                    "topic": op.topic,
                    "limit": reason.limit,
                    "client": op.client,
                    "observed": decision.observed,
                },
            )
