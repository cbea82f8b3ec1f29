"""Rates held against the law of a token bucket, in every window: from a gate's own log.

The gate decides on one clock, so its log tells exactly what passed in any window. When clients or brokers
have a message is no measure: what a busy machine has kept waiting comes at once.
"""

from tests.real.gate import GateProcess

from sluicegate.demo.law import Limit
from sluicegate.demo.topic_log import TopicLog

FULL = {"decisions": {"detail": "full"}}
"""Settings of a gate whose log has a row for each message or batch that passes."""


def assert_law(
    gate: GateProcess,
    topic: str,
    limit: Limit,
    policy: str,
    count: int,
    *,
    operation: str = "publish",
    unit: str = "messages",
    subscription: str | None = None,
    at_once: int = 1,
) -> None:
    """Fail if more passed in any window than a limit permits, or less than it owes while it held somebody up.

    :param gate: one with the settings `FULL`.
    :param policy: whose limit it is.
    :param count: messages that passed at least, as clients or the broker know it.
    :param subscription: of one subscription only.
    :param at_once: operations that may stand in line together.
    """

    def whole() -> TopicLog:
        return TopicLog(gate.decisions(topic=topic))

    gate.eventually(
        lambda: sum(each.amount for each in whole().admitted(operation, "messages", subscription)) >= count,
        f"{count} messages in the log",
    )
    log = whole()
    admitted = log.admitted(operation, unit, subscription)
    held = log.held(operation, policy, unit, subscription)
    assert limit.surplus(admitted) <= 0, f"{limit.surplus(admitted):.1f} {unit} too many in the worst window"
    assert limit.shortfall(admitted, held, at_once) <= 0, f"{policy} owes more than was let through"
    assert limit.waiting(admitted, held) > 0, f"{policy} held nobody back"
