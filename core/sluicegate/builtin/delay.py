"""Fixed delivery delay: every message of a topic is delivered so much later than it was published."""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

from pydantic import Field

from sluicegate.config import Duration, PolicyModel
from sluicegate.engine import texts
from sluicegate.engine.check import Check, Stage
from sluicegate.engine.delay import DelayRule
from sluicegate.engine.state import TopicState
from sluicegate.hooks import hookimpl
from sluicegate.model import (
    Action,
    Decision,
    EffectivePolicies,
    Operation,
    OperationKind,
    Outcome,
    Reason,
    TopicName,
)

FIXED_DELAY = "fixed_delivery_delay"
DELAY_CLOCK = "delay_clock"
TIMESTAMP_AHEAD = "max_timestamp_ahead"
DEFAULT_AHEAD_MS = 3_600_000


class DelayPolicies(PolicyModel):
    """When messages are delivered."""

    aliases: ClassVar[Mapping[str, str]] = {"fixedDeliveryDelayInMillis": FIXED_DELAY}
    parameters: ClassVar[frozenset[str]] = frozenset({DELAY_CLOCK, TIMESTAMP_AHEAD})
    defaults: ClassVar[Mapping[str, int | float | str | bool]] = {
        DELAY_CLOCK: "publish_time",
        TIMESTAMP_AHEAD: DEFAULT_AHEAD_MS,
    }

    fixed_delivery_delay: Duration | None = Field(
        default=None,
        description="How much later than published every message is delivered; 0 delivers at once. It takes "
        "precedence over what clients ask for.",
    )
    delay_clock: Literal["publish_time", "receive_time"] | None = Field(
        default=None,
        description="Whether the delay counts from the message's time stamp or from when the gateway saw it.",
    )
    max_timestamp_ahead: Duration | None = Field(
        default=None,
        description="How far in the future a message may be stamped where a delay is fixed; 1h if unset. "
        "Messages stamped further ahead are refused.",
    )


@hookimpl
def sluicegate_policy_model() -> type[PolicyModel]:
    """Add the delay and what shapes it."""
    return DelayPolicies


@hookimpl
def sluicegate_delay_rule(topic: TopicName, policies: EffectivePolicies) -> DelayRule | None:
    """Delay a topic that has a fixed delay which is applied, not only observed."""
    fixed_ms = int(policies.number(FIXED_DELAY))
    if fixed_ms == 0 or policies.observe_only or policies.flag(f"observe_only.{FIXED_DELAY}"):
        return None
    received = policies.text(DELAY_CLOCK, "publish_time") == "receive_time"
    return DelayRule(fixed_ms, _ahead_ms(policies), "receive_time" if received else "publish_time")


@hookimpl
def sluicegate_policy_checks(
    topic: TopicName, policies: EffectivePolicies, context: TopicState
) -> Sequence[Check]:
    """Refuse messages whose time stamp would put off their delivery far beyond the delay."""
    limit_ms = _ahead_ms(policies)
    if sluicegate_delay_rule(topic, policies) is None:
        return []

    def check(op: Operation, now_ns: int) -> Decision | None:
        if op.ahead_ms <= limit_ms:
            return None
        text = texts.timestamp_ahead(topic.full, op.ahead_ms, limit_ms)
        level = policies.level(TIMESTAMP_AHEAD)
        reason = Reason(TIMESTAMP_AHEAD, Outcome.INVALID, text, op.ahead_ms, limit_ms, level)
        return Decision(Action.REJECT, (reason,))

    return [Check(TIMESTAMP_AHEAD, (OperationKind.PUBLISH,), check, Stage.SIZE)]


def _ahead_ms(policies: EffectivePolicies) -> int:
    if TIMESTAMP_AHEAD not in policies.values:
        return DEFAULT_AHEAD_MS
    return int(policies.number(TIMESTAMP_AHEAD))
