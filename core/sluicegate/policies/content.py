"""The policy for the schemas that the messages of a topic are written by."""

from collections.abc import Sequence

from sluicegate.config import PolicyModel
from sluicegate.config.asking import only_with
from sluicegate.config.name_list import NameList, split_names
from sluicegate.engine import texts
from sluicegate.engine.check import Check, Stage
from sluicegate.engine.state import TopicState
from sluicegate.hooks import hookimpl
from sluicegate.model import Decision, EffectivePolicies, Operation, OperationKind, Part, TopicName
from sluicegate.policies.stopping import rejected

ALLOWED = "allowed_content"
ANY = "any"


class ContentPolicies(PolicyModel):
    """The policy for content."""

    allowed_content: NameList | None = None
    """Schemas that messages may be written by: `any` for any that is named, or ids. Kafka: the id in the wire
    format of Confluent's and Apicurio's serializers; Pulsar and Danube: the schema version. Other messages
    are refused."""


@hookimpl
def sluicegate_policy_model() -> type[PolicyModel]:
    """Add the policy."""
    return ContentPolicies


@hookimpl
@only_with((ALLOWED,))
def sluicegate_policy_checks(
    topic: TopicName, policies: EffectivePolicies, context: TopicState
) -> Sequence[Check]:
    """Check the schema of each message."""
    allowed = frozenset(split_names(policies.text(ALLOWED, "")))
    if not allowed:
        return []

    def check(op: Operation, now_ns: int) -> Decision | None:
        for message in op.contents:
            if message.schema not in allowed and not (ANY in allowed and message.schema):
                return rejected(policies, ALLOWED, texts.content(topic.full, message.schema, sorted(allowed)))
        return None

    return [
        Check(ALLOWED, (OperationKind.PUBLISH,), check, Stage.CUSTOM, fail_open=False, reads=(Part.SCHEMA,))
    ]
