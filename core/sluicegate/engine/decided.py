"""What decisions of single checks mean for an operation as a whole."""

from collections.abc import Sequence
from dataclasses import replace

from sluicegate.engine import texts
from sluicegate.engine.check import Check, CheckCall
from sluicegate.engine.delivery_time import DelayRule
from sluicegate.engine.faults import Fault, GateFaults, plugin_of
from sluicegate.model import (
    Action,
    Decision,
    EffectivePolicies,
    Operation,
    OperationKind,
    Outcome,
    Part,
    Reason,
)


def parts_read(checks: Sequence[Check], header_delay: DelayRule | None) -> frozenset[Part]:
    """The parts of published messages that checks and a delay by header read."""
    parts = {part for check in checks if OperationKind.PUBLISH in check.kinds for part in check.reads}
    return frozenset(map(Part, parts | {Part.HEADERS} if header_delay is not None else parts))


def joined(first: Decision, second: Decision) -> Decision:
    """Two rewrites of one operation as one."""
    reasons = (*first.reasons, *second.reasons)
    return replace(first, reasons=reasons, headers=first.headers.joined(second.headers))


def reading(check: Check, topic: str, policies: EffectivePolicies, faults: GateFaults) -> CheckCall:
    """The call of a check that reads messages, made only if what it reads of them can be read.

    :param topic: full name.
    :param policies: of the topic.
    :param faults: counts messages that cannot be read.
    """
    call, reads_value = check.call, Part.VALUE in check.reads

    def read(op: Operation, now_ns: int) -> Decision | None:
        if not op.unreadable or (op.contents and not reads_value):
            return call(op, now_ns)
        # Encrypted ones, say: no fault of the check, so the breaker does not count them.
        faults.unread(Fault(plugin_of(check), check.policy, topic, f"unreadable: {op.unreadable}", False))
        if check.fail_open:
            return None
        text = texts.not_read(check.policy, topic, op.unreadable)
        reason = Reason(check.policy, Outcome.INVALID, text, level=policies.level(check.policy))
        return Decision(Action.REJECT, (reason,))

    return read
