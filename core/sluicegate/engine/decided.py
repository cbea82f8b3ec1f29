"""What decisions of single checks mean for an operation as a whole."""

from collections.abc import Sequence
from dataclasses import replace

from sluicegate.engine.check import Check
from sluicegate.engine.delivery_time import DelayRule
from sluicegate.engine.faults import GuardedCheck, shown
from sluicegate.model import UNCHANGED, Action, Decision, Operation, OperationKind, Part, Reason


def allowed(decision: Decision | None) -> Decision | None:
    """Turn a decision that lets an operation pass as it is into None."""
    passes = decision is None or (decision.action is Action.REWRITE and decision.headers is UNCHANGED)
    return None if passes else decision


def parts_read(checks: Sequence[Check], header_delay: DelayRule | None) -> frozenset[Part]:
    """The parts of published messages that checks and a delay by header read."""
    parts = {part for check in checks if OperationKind.PUBLISH in check.kinds for part in check.reads}
    return frozenset(map(Part, parts | {Part.HEADERS} if header_delay is not None else parts))


def joined(first: Decision, second: Decision) -> Decision:
    """Two rewrites of one operation as one."""
    reasons = (*first.reasons, *second.reasons)
    return replace(first, reasons=reasons, headers=first.headers.joined(second.headers))


def is_observed(entry: GuardedCheck, op: Operation) -> bool:
    """Whether what a check decides about an operation is only recorded."""
    return entry.mode is not None and not entry.mode.applies_to(entry.check.policy, op)


def misfit(decision: object, op: Operation) -> str:
    """Why what a check gave is no decision about its operation; empty if it is one."""
    if not isinstance(decision, Decision):
        return f"a check gave {shown(decision)}, expected None or a Decision"
    action = decision.action
    if not (decision.reasons or action is Action.ALLOW) or not {Reason}.issuperset(
        map(type, decision.reasons)
    ):
        return f"a decision to {action} has reasons {shown(decision.reasons)}, expected at least one Reason"
    if action is Action.DELAY and not decision.delay_ns:  # a session would ask again in a busy loop
        return "a decision to delay has delay_ns 0, expected at least 1"
    if action is Action.DROP and op.reliable:
        return "a decision drops an operation that its client was promised; only unreliable ones may be"
    return (
        "a decision says that it is observed, which the policy's 'mode' alone may say"
        if decision.observed
        else ""
    )
