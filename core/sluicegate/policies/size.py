"""The limit on the size of messages, and whether compressed batches are unpacked to check it."""

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar

from pydantic import Field

from sluicegate.config import PolicyModel, Size
from sluicegate.config.models import OnLimit
from sluicegate.engine import texts
from sluicegate.engine.check import Check, Stage
from sluicegate.engine.state import TopicState
from sluicegate.hooks import hookimpl
from sluicegate.model import Decision, EffectivePolicies, Operation, OperationKind, TopicName
from sluicegate.policies.stopping import rejected

MESSAGE_SIZE = "max_message_size"
INSPECT = "inspect"
DEFAULT_SIZE = 10 * 2**20
"""Limit in bytes if no level sets one; the only policy with a default limit."""


class SizePolicies(PolicyModel):
    """The limit on the size of a message, and how sizes are determined."""

    on_limit_actions: ClassVar[Mapping[str, tuple[OnLimit, ...]]] = {MESSAGE_SIZE: ("reject",)}
    unscoped: ClassVar[frozenset[str]] = frozenset({INSPECT})
    defaults: ClassVar[Mapping[str, int | float | str | bool]] = {MESSAGE_SIZE: DEFAULT_SIZE, INSPECT: False}

    max_message_size: Size | None = None
    """Payload of one message; 10MiB if no level sets it, 0 is unlimited. Keep it at or below the broker's own
    limit, so that only one limit affects producers."""
    inspect: Annotated[bool, Field(strict=True)] | None = None
    """Whether compressed batches are unpacked to determine the size and number of their messages. By default
    a compressed batch counts as one message. Batches that cannot be unpacked are refused."""


@hookimpl
def sluicegate_policy_model() -> type[PolicyModel]:
    """Add the limit."""
    return SizePolicies


@hookimpl
def sluicegate_policy_checks(
    topic: TopicName, policies: EffectivePolicies, context: TopicState
) -> Sequence[Check]:
    """Check published messages before all other checks."""
    limit = int(policies.number(MESSAGE_SIZE)) if MESSAGE_SIZE in policies.values else DEFAULT_SIZE
    checks = [_inspect_check(topic, policies)] if policies.values.get(INSPECT) else []
    if limit:
        call = _SizeCheck(topic, policies, limit).check
        checks.append(Check(MESSAGE_SIZE, (OperationKind.PUBLISH,), call, Stage.SIZE, largest=limit))
    return checks


def _inspect_check(topic: TopicName, policies: EffectivePolicies) -> Check:
    def check(op: Operation, now_ns: int) -> Decision | None:
        if not op.unreadable:
            return None
        text = texts.unreadable(topic.full, op.unreadable)
        return rejected(policies, INSPECT, text)

    return Check(INSPECT, (OperationKind.PUBLISH,), check, Stage.SIZE)


class _SizeCheck:
    __slots__ = ("limit", "policies", "topic")

    def __init__(self, topic: TopicName, policies: EffectivePolicies, limit: int) -> None:
        self.topic = topic
        self.policies = policies
        self.limit = limit

    def check(self, op: Operation, now_ns: int) -> Decision | None:
        if op.largest <= self.limit:
            return None
        text = texts.message_size(self.topic.full, op.largest, self.limit)
        return rejected(self.policies, MESSAGE_SIZE, text, op.largest, self.limit)
