"""Policy `tenant_header`: messages say in a header for which namespace they are, or get that header."""

from collections.abc import Sequence

from sluicegate.api import (
    Action,
    Check,
    CheckCall,
    Decision,
    EffectivePolicies,
    HeaderChange,
    Operation,
    OperationKind,
    Outcome,
    PolicyModel,
    Reason,
    TopicName,
    TopicState,
    hookimpl,
)

POLICY = "tenant_header"


class HeaderRulePolicies(PolicyModel):
    """The field that every level of the policy file accepts; None is unset and inherits."""

    tenant_header: str | None = None
    """Name of the header that says for which namespace a message is. A message for another namespace is
    refused; one without the header gets it."""


@hookimpl
def sluicegate_policy_model() -> type[PolicyModel]:
    """Add the field."""
    return HeaderRulePolicies


@hookimpl
def sluicegate_policy_checks(
    topic: TopicName, policies: EffectivePolicies, context: TopicState
) -> Sequence[Check]:
    """Compare the header with the topic's namespace."""
    name = policies.text(POLICY, "")
    if not name:
        return []
    # Messages that cannot be read, such as encrypted ones, are refused as well: `fail_open` is False.
    call = _check(topic, name, policies.level(POLICY))
    return [Check(POLICY, (OperationKind.PUBLISH,), call, reads={"headers"}, fail_open=False)]


def _check(topic: TopicName, name: str, level: str) -> CheckCall:
    own = topic.namespace.encode()
    added = _reason(f"Header {name} is added to messages for topic {topic.full}.", level)
    rewrite = Decision(Action.REWRITE, (added,), headers=HeaderChange(set={name: own}))

    def check(op: Operation, now_ns: int) -> Decision | None:
        is_complete = True
        for message in op.contents:
            value = dict(message.headers).get(name)
            if value is None:
                is_complete = False
            elif value != own:
                said = value.decode(errors="backslashreplace")
                text = f"Header {name} says {said!r}, but topic {topic.full} is of {topic.namespace!r}."
                return Decision(Action.REJECT, (_reason(text, level),))
        return None if is_complete else rewrite

    return check


def _reason(text: str, level: str) -> Reason:
    return Reason(POLICY, Outcome.INVALID, text, level=level)
