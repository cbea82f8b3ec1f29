"""Nobody but its owner publishes to a topic of a namespace that begins with `private-`."""

from sluicegate.api import Action, Check, Decision, OperationKind, Outcome, Reason, Stage, hookimpl


@hookimpl
def sluicegate_policy_checks(topic):
    owner = f"User:{topic.namespace.removeprefix('private-')}"
    if not topic.namespace.startswith("private-"):
        return []

    def check(op, now_ns):
        if op.principal == owner:
            return None
        text = f"Topic {topic.full} is private to {owner}. Ask them, or use a topic of your own."
        return Decision(Action.REJECT, (Reason("private_topics", Outcome.INVALID, text),))

    return [Check("private_topics", (OperationKind.ATTACH_PRODUCER,), check, Stage.CUSTOM, fail_open=False)]
