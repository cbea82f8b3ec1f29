"""The limit on unacknowledged messages of a consumer."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from sluicegate.config import Count, PolicyModel
from sluicegate.config.asking import only_with
from sluicegate.config.models import OnLimit
from sluicegate.engine import texts
from sluicegate.engine.check import Check, Stage
from sluicegate.engine.state import TopicState
from sluicegate.engine.wait_queue import LONGEST_WAIT_NS
from sluicegate.hooks import hookimpl
from sluicegate.model import Decision, EffectivePolicies, Operation, OperationKind, TopicName
from sluicegate.policies.stopping import limited

UNACKED = "max_unacked_messages_per_consumer"


class UnackedPolicies(PolicyModel):
    """The limit on unacknowledged messages."""

    on_limit_actions: ClassVar[Mapping[str, tuple[OnLimit, ...]]] = {UNACKED: ("delay",)}

    max_unacked_messages_per_consumer: Count | None = None
    """Messages delivered to one consumer and not acknowledged yet; at the limit delivery to it pauses until
    it acknowledges. 0 is unlimited. Only for brokers with acknowledgements."""


@hookimpl
def sluicegate_policy_model() -> type[PolicyModel]:
    """Add the limit."""
    return UnackedPolicies


@hookimpl
@only_with((UNACKED,))
def sluicegate_policy_checks(
    topic: TopicName, policies: EffectivePolicies, context: TopicState
) -> Sequence[Check]:
    """Pause dispatch at the limit; count dispatched and acknowledged messages."""
    limit = int(policies.number(UNACKED))
    if limit == 0:
        return []

    def check(op: Operation, now_ns: int) -> Decision | None:
        if not op.reliable:
            return None
        pending = context.subscription(op.subscription).unacked.get(op.consumer, 0)
        # A batch larger than the limit could never pass otherwise: it waits until everything is acknowledged.
        if pending == 0 or pending + op.messages <= limit:
            return None
        text = texts.unacked(topic.full, op.subscription, pending, limit)
        return limited(policies, UNACKED, text, pending, limit, LONGEST_WAIT_NS)

    def account(op: Operation, now_ns: int) -> None:
        if not op.reliable or not op.consumer:
            return
        unacked = context.subscription(op.subscription).unacked
        change = op.messages if op.kind is OperationKind.DISPATCH else -op.messages
        left = unacked.get(op.consumer, 0) + change
        if left > 0:
            unacked[op.consumer] = left
        else:
            unacked.pop(op.consumer, None)

    return [
        Check(UNACKED, (OperationKind.DISPATCH,), check, Stage.COUNT),
        Check(UNACKED, (OperationKind.DISPATCH, OperationKind.ACKNOWLEDGE), account, Stage.ACCOUNT),
    ]
