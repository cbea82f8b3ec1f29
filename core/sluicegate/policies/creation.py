"""Policies for which topics may be created, and with how many partitions."""

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar

from pydantic import Field

from sluicegate.config import Count, PolicyModel
from sluicegate.config.asking import only_with
from sluicegate.config.models import OnLimit
from sluicegate.engine import texts
from sluicegate.engine.check import Check, CheckCall, Stage
from sluicegate.engine.state import TopicState
from sluicegate.hooks import hookimpl
from sluicegate.model import Decision, EffectivePolicies, Operation, OperationKind, Outcome, TopicName
from sluicegate.policies.stopping import rejected

ALLOWED = "allow_topic_creation"
PARTITIONS = "max_partitions"
CREATION = (ALLOWED, PARTITIONS)
"""All of them."""


class CreationPolicies(PolicyModel):
    """Policies for the creation of topics. Exempt principals may create what they like."""

    on_limit_actions: ClassVar[Mapping[str, tuple[OnLimit, ...]]] = {PARTITIONS: ("reject",)}

    allow_topic_creation: Annotated[bool, Field(strict=True)] | None = None
    """Whether clients may create topics, by a request for that or by their first use. Topics that exist are
    not affected."""
    max_partitions: Count | None = None
    """Partitions of one topic; 0 is unlimited. A topic that is created with more, or that would get more, is
    refused. Topics that have more stay as they are."""


@hookimpl
def sluicegate_policy_model() -> type[PolicyModel]:
    """Add the policies."""
    return CreationPolicies


@hookimpl
@only_with(CREATION)
def sluicegate_policy_checks(
    topic: TopicName, policies: EffectivePolicies, context: TopicState
) -> Sequence[Check]:
    """Check what is created."""
    checks = []
    if policies.values.get(ALLOWED) is False:
        decision = rejected(policies, ALLOWED, texts.creation(topic.full))
        checks.append(Check(ALLOWED, (OperationKind.CREATE_TOPIC,), lambda op, now_ns: decision, Stage.COUNT))
    if (most := int(policies.number(PARTITIONS))) > 0:
        kinds = (OperationKind.CREATE_TOPIC, OperationKind.CREATE_PARTITIONS)
        checks.append(Check(PARTITIONS, kinds, _partitions(topic, policies, most), Stage.COUNT))
    return checks


def _partitions(topic: TopicName, policies: EffectivePolicies, most: int) -> CheckCall:
    def check(op: Operation, now_ns: int) -> Decision | None:
        if op.partitions <= most:
            return None
        text = texts.partitions(topic.full, op.partitions, most)
        return rejected(policies, PARTITIONS, text, op.partitions, most, Outcome.LIMIT_REACHED)

    return check
