"""The sink of all gates of a broker: passes decisions to the decision log, and logs them.

Lines are thinned out: one a second for each topic and policy, with a count of those left out.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace

from sluicegate.engine.gate import DecisionSink, Gate
from sluicegate.model import Action, Decision, Operation
from sluicegate.pacing.log_throttle import LineLimiter
from sluicegate.runtime.episodes import Episodes

log = logging.getLogger("sluicegate.policy")


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
        self._show_ids = show_ids
        self._line_limiter = LineLimiter()
        self._episodes = Episodes(sustained_ns)

    def decided(self, gate: Gate, op: Operation, decision: Decision, now_ns: int) -> Decision:
        """Record a decision that is not a plain allow."""
        stamped = self._sink.decided(gate, op, decision, now_ns)
        if stamped.reasons:
            if stamped.action is Action.DELAY:
                self._episodes.held(op, stamped, now_ns)
            elif stamped.action is not Action.REWRITE:
                self._refused(op, stamped, now_ns)
        return stamped if self._show_ids else replace(stamped, id="")

    def end_quiet(self, now_ns: int, held: Mapping[str, int]) -> None:
        """Log which rate limiting has ended; call it once a second.

        :param held: operations held now, by topic.
        """
        self._episodes.end_quiet(now_ns, held)

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
