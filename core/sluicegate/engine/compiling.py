"""Makes gates: those of exempt principals leave most checks out."""

from collections.abc import Callable, Sequence

from sluicegate.engine.check import Check, Stage
from sluicegate.engine.delivery_time import DelayRule
from sluicegate.engine.faults import GateFaults
from sluicegate.engine.gate import DecisionSink, Gate
from sluicegate.engine.state import TopicState
from sluicegate.model import Action, Decision, EffectivePolicies, Operation, OperationKind, TopicName

_SKIPPED_WHEN_EXEMPT = frozenset({Stage.COUNT, Stage.RATE, Stage.ACCOUNT})


class _ExemptGate(Gate):
    """The gate of exempt principals: it counts what they send and get once more, as it uses no limit.

    Its decisions are not timed.
    """

    __slots__ = ()

    def publish(self, op: Operation, now_ns: int) -> Decision | None:
        decision = Gate.publish(self, op, now_ns)
        if decision is None or decision.action is Action.REWRITE:
            self.state.exempt_messages += op.messages
            self.state.exempt_bytes += op.bytes
        return decision

    def dispatch(self, op: Operation, now_ns: int) -> Decision | None:
        decision = Gate.dispatch(self, op, now_ns)
        if decision is None or decision.action is Action.REWRITE:
            self.state.exempt_dispatched_messages += op.messages
            self.state.exempt_dispatched_bytes += op.bytes
        return decision

    def time_next_publish(self, report: Callable[[int], None], clock: Callable[[], int]) -> None:
        pass


def compile_gate(
    topic: TopicName,
    policies: EffectivePolicies,
    state: TopicState,
    checks: Sequence[Check],
    delay: DelayRule | None,
    sink: DecisionSink,
    faults: GateFaults,
    exempt: bool,
    exempt_policies: frozenset[str] = frozenset(),
) -> Gate:
    """Make the gate of a topic, or of those who are in some scopes there (`scoped_gate`).

    Checks run by stage; those of one stage in the order given, those that take last. At most one that takes
    should stand in Stage.RATE for a kind: an operation that a later one holds is charged again by an earlier
    one.

    :param topic: the topic.
    :param policies: what holds for it; what is only observed, and for whom, is applied here.
    :param state: its state.
    :param checks: what all plugins returned.
    :param delay: what holds for its delivery time, if anything.
    :param sink: takes every decision.
    :param faults: counts checks that raise.
    :param exempt: True for the gate of exempt principals: counts, rates and bookkeeping are left out.
    :param exempt_policies: further policies that exempt principals skip.
    """
    if exempt:
        checks = [
            check
            for check in checks
            if check.stage not in _SKIPPED_WHEN_EXEMPT and check.policy not in exempt_policies
        ]
    kind = _ExemptGate if exempt else Gate
    gate = kind(topic, policies, state, checks, delay, sink, faults, exempt)
    if not (exempt or policies.scoped or gate.asks(OperationKind.CREATE_SUBSCRIPTION)):
        state.subscriptions_known, state.subscriptions_needed = False, 0  # nothing lists or counts them now
    return gate
