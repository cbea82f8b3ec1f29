"""Policy `max_topics_per_namespace`: topics of one namespace that clients create while the gateway runs."""

from collections import defaultdict

from pydantic import Field

from sluicegate.api import (
    Action,
    Check,
    Count,
    Decision,
    OperationKind,
    Outcome,
    PolicyModel,
    Reason,
    hookimpl,
)

POLICY = "max_topics_per_namespace"
created = defaultdict(set)


class NamespacePolicies(PolicyModel):
    """The field that this plugin adds."""

    max_topics_per_namespace: Count | None = Field(
        default=None, description="Topics that clients may create."
    )


@hookimpl
def sluicegate_policy_model():
    return NamespacePolicies


@hookimpl
def sluicegate_policy_checks(topic, policies):
    most, topics = policies.number(POLICY), created[topic.namespace]

    def check(op, now_ns):
        if topic.full in topics or len(topics) < most:
            topics.add(topic.full)
            return None
        text = f"Namespace {topic.namespace} has {len(topics)} new topics, Limit: {most}. Use one of them."
        return Decision(Action.REJECT, (Reason(POLICY, Outcome.LIMIT_REACHED, text, len(topics), most),))

    return [Check(POLICY, (OperationKind.CREATE_TOPIC,), check)] if most else []
