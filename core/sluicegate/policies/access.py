"""Policies for who may use a topic, and for what: reading only, writing only, certain clients."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from sluicegate.config import PolicyModel
from sluicegate.config.asking import only_with
from sluicegate.config.name_list import NameList, name_matcher, split_names
from sluicegate.engine import texts
from sluicegate.engine.check import Check, CheckCall, Stage
from sluicegate.engine.state import TopicState
from sluicegate.hooks import hookimpl
from sluicegate.model import Decision, EffectivePolicies, Operation, OperationKind, TopicName
from sluicegate.policies.stopping import rejected

READ_ONLY = "read_only"
WRITE_ONLY = "write_only"
CLIENTS = "client_id_pattern"
_CONSUMING = (OperationKind.CREATE_SUBSCRIPTION, OperationKind.ATTACH_CONSUMER)
_PRODUCING = (OperationKind.ATTACH_PRODUCER, OperationKind.PUBLISH)
_ATTACHING = (OperationKind.ATTACH_PRODUCER, *_CONSUMING)


class AccessPolicies(PolicyModel):
    """Policies for who may use a topic."""

    read_only: Annotated[bool, Field(strict=True)] | None = None
    """Whether producers are refused, as for a topic that is filled from elsewhere. Messages of producers that
    are there already are refused as well."""
    write_only: Annotated[bool, Field(strict=True)] | None = None
    """Whether consumers and new subscriptions are refused. Consumers that are there already stay."""
    client_id_pattern: NameList | None = None
    """Ids of clients that may attach, with `*` for any characters: `team-a-*`. Others are refused. A client
    chooses its id, so this prevents mistakes; only authentication prevents misuse."""


@hookimpl
def sluicegate_policy_model() -> type[PolicyModel]:
    """Add the policies."""
    return AccessPolicies


@hookimpl
@only_with((READ_ONLY, WRITE_ONLY, CLIENTS))
def sluicegate_policy_checks(
    topic: TopicName, policies: EffectivePolicies, context: TopicState
) -> Sequence[Check]:
    """Check who attaches."""
    checks = []
    if policies.flag(READ_ONLY):
        text = texts.read_only(topic.full)
        checks.append(Check(READ_ONLY, _PRODUCING, _refusing(policies, READ_ONLY, text), Stage.SIZE))
    if policies.flag(WRITE_ONLY):
        text = texts.write_only(topic.full)
        checks.append(Check(WRITE_ONLY, _CONSUMING, _refusing(policies, WRITE_ONLY, text), Stage.SIZE))
    if patterns := split_names(policies.text(CLIENTS, "")):
        checks.append(Check(CLIENTS, _ATTACHING, _clients(topic, policies, patterns), Stage.SIZE))
    return checks


def _refusing(policies: EffectivePolicies, policy: str, text: str) -> CheckCall:
    decision = rejected(policies, policy, text)
    return lambda op, now_ns: decision


def _clients(topic: TopicName, policies: EffectivePolicies, patterns: Sequence[str]) -> CheckCall:
    is_named = name_matcher(patterns)

    def check(op: Operation, now_ns: int) -> Decision | None:
        client_id = op.client.rpartition("@")[0]
        if is_named(client_id):
            return None
        return rejected(policies, CLIENTS, texts.client_id(topic.full, client_id, patterns))

    return check
