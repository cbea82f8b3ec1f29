"""A plugin whose check never returns for one topic."""

import time

from sluicegate.api import Check, Decision, Operation, OperationKind, TopicName, hookimpl


@hookimpl
def sluicegate_policy_checks(topic: TopicName) -> list[Check]:
    return [Check("never", (OperationKind.PUBLISH,), never)] if topic.full == "stuck" else []


def never(op: Operation, now_ns: int) -> Decision | None:
    while True:
        time.sleep(1)
