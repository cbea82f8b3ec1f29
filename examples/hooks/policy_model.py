"""Policy `topic_prefix`: a text that every level of the policy file may set."""

from pydantic import Field

from sluicegate.api import PolicyModel, hookimpl


class PrefixPolicies(PolicyModel):
    """The fields that this plugin adds; None is unset and inherits."""

    topic_prefix: str | None = Field(default=None, description="Prefix that a topic's name must have.")


@hookimpl
def sluicegate_policy_model():
    return PrefixPolicies
