"""Policies for the headers of messages: which there must be, must not be, and are taken off."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from sluicegate.config import PolicyModel
from sluicegate.config.asking import only_with
from sluicegate.config.name_list import NameList, name_matcher, split_names
from sluicegate.engine import texts
from sluicegate.engine.check import Check, CheckCall, Stage
from sluicegate.engine.state import TopicState
from sluicegate.hooks import hookimpl
from sluicegate.model import (
    Action,
    Decision,
    EffectivePolicies,
    HeaderChange,
    Operation,
    OperationKind,
    Outcome,
    Part,
    Reason,
    TopicName,
)
from sluicegate.policies.stopping import rejected

REQUIRED = "required_headers"
FORBIDDEN = "forbidden_headers"
REMOVED = "remove_headers"
_PUBLISH = (OperationKind.PUBLISH,)
_Maker: TypeAlias = Callable[[TopicName, EffectivePolicies, tuple[str, ...]], CheckCall]
_READS = (Part.HEADERS,)


class HeaderPolicies(PolicyModel):
    """Policies for headers (Kafka), properties (Pulsar) and attributes (Danube)."""

    required_headers: NameList | None = None
    """Headers that every message must have. Messages without one of them are refused."""
    forbidden_headers: NameList | None = None
    """Headers that no message may have; `*` stands for any characters. Messages with one are refused."""
    remove_headers: NameList | None = None
    """Headers that the gateway removes from messages before the broker stores them; `*` stands for any
    characters."""


@hookimpl
def sluicegate_policy_model() -> type[PolicyModel]:
    """Add the policies."""
    return HeaderPolicies


@hookimpl
@only_with((REQUIRED, FORBIDDEN, REMOVED))
def sluicegate_policy_checks(
    topic: TopicName, policies: EffectivePolicies, context: TopicState
) -> Sequence[Check]:
    """Check the headers of each message."""
    makers: Mapping[str, _Maker] = {REQUIRED: _required, FORBIDDEN: _forbidden, REMOVED: _removed}
    return [
        Check(
            policy,
            _PUBLISH,
            make(topic, policies, names),
            Stage.CUSTOM,
            fail_open=policy == REMOVED,
            reads=_READS,
        )
        for policy, make in makers.items()
        if (names := split_names(policies.text(policy, "")))
    ]


def _required(topic: TopicName, policies: EffectivePolicies, names: tuple[str, ...]) -> CheckCall:
    wanted = frozenset(names)

    def check(op: Operation, now_ns: int) -> Decision | None:
        for message in op.contents:
            if not wanted <= {name for name, _ in message.headers}:
                missing = sorted(wanted.difference(name for name, _ in message.headers))
                return rejected(policies, REQUIRED, texts.header_missing(topic.full, missing[0]))
        return None

    return check


def _forbidden(topic: TopicName, policies: EffectivePolicies, names: tuple[str, ...]) -> CheckCall:
    is_named = name_matcher(names)

    def check(op: Operation, now_ns: int) -> Decision | None:
        for message in op.contents:
            for name, _ in message.headers:
                if is_named(name):
                    return rejected(policies, FORBIDDEN, texts.header_forbidden(topic.full, name))
        return None

    return check


def _removed(topic: TopicName, policies: EffectivePolicies, names: tuple[str, ...]) -> CheckCall:
    is_named = name_matcher(names)
    text = f"Headers are removed by policy {REMOVED} of topic {topic.full}."
    reasons = (Reason(REMOVED, Outcome.INVALID, text, level=policies.level(REMOVED)),)

    def check(op: Operation, now_ns: int) -> Decision | None:
        there = frozenset(name for message in op.contents for name, _ in message.headers if is_named(name))
        return Decision(Action.REWRITE, reasons, headers=HeaderChange(remove=there)) if there else None

    return check
