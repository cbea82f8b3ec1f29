"""Delivery times: a fixed delay for all messages of a topic, and a limit on producers' delays."""

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from sluicegate.config import Delay, Duration, PolicyModel
from sluicegate.config.asking import only_with
from sluicegate.engine import texts
from sluicegate.engine.check import Check, Stage
from sluicegate.engine.delivery_time import DelayRule, delivery_by_header
from sluicegate.engine.state import TopicState
from sluicegate.hooks import hookimpl
from sluicegate.model import Decision, EffectivePolicies, Operation, OperationKind, Part, TopicName
from sluicegate.policies.stopping import rejected

FIXED_DELAY = "fixed_delivery_delay"
MAX_DELAY = "max_delivery_delay"
DELAY_HEADER = "delay_header"
ACTIVE = "delayed_delivery_active"
TICK_TIME = "delayed_delivery_tick_time"
DELAY_CLOCK = "delay_clock"
TIMESTAMP_AHEAD = "max_timestamp_ahead"
TIMESTAMP_BEHIND = "max_timestamp_behind"
_DELAYS = (FIXED_DELAY, MAX_DELAY, DELAY_HEADER)
DEFAULT_AHEAD_MS = 3_600_000
DEFAULT_BEHIND_MS = 5_000
"""As a producer with an old time stamp skips that much of a delay that it must not override (PIP-437)."""


class DelayPolicies(PolicyModel):
    """Policies for delivery times."""

    aliases: ClassVar[Mapping[str, str]] = {
        "fixedDeliveryDelayInMillis": FIXED_DELAY,
        "maxDeliveryDelayInMillis": MAX_DELAY,
    }
    parameters: ClassVar[frozenset[str]] = frozenset(
        {ACTIVE, TICK_TIME, DELAY_CLOCK, TIMESTAMP_AHEAD, TIMESTAMP_BEHIND}
    )
    whole_topic: ClassVar[frozenset[str]] = frozenset({FIXED_DELAY, DELAY_HEADER})
    unscoped: ClassVar[frozenset[str]] = parameters
    defaults: ClassVar[Mapping[str, int | float | str | bool]] = {
        DELAY_CLOCK: "publish_time",
        TIMESTAMP_AHEAD: DEFAULT_AHEAD_MS,
        TIMESTAMP_BEHIND: DEFAULT_BEHIND_MS,
    }

    fixed_delivery_delay: Delay | None = None
    """Time between publishing and delivery of every message; 0 leaves it to the producer. It takes precedence
    over clients' delays and over max_delivery_delay."""
    max_delivery_delay: Delay | None = None
    """Longest delay that a producer can request; messages with a longer one are refused. 0 is unlimited.
    Without effect while a fixed delay is set."""
    delay_header: Annotated[str, Field(max_length=256, strict=True)] | None = None
    """Name of a header that says when a message is delivered: milliseconds since 1970, or a delay such as
    `30s` (units ms, s, m, h, d; ms without one, below 100,000,000,000). It takes precedence over the client's
    delay, and max_delivery_delay limits it. Without effect while a fixed delay is set; empty for none."""
    delayed_delivery_active: Annotated[bool, Field(strict=True)] | None = None
    """Whether the broker itself can delay deliveries; true if unset. If false, the gateway holds back
    messages with a fixed delay."""
    delayed_delivery_tick_time: Duration | None = None
    """Precision of the broker's delivery times; its own setting if unset."""
    delay_clock: Literal["publish_time", "receive_time"] | None = None
    """Whether the delay counts from the message's timestamp or its arrival at the gateway."""
    max_timestamp_ahead: Duration | None = None
    """How far in the future timestamps can be on topics with a fixed delay; 1h if unset. Messages with later
    timestamps are refused."""
    max_timestamp_behind: Duration | None = None
    """How far before arrival timestamps can be on topics with a fixed delay; 5s if unset. The delay of a
    message with an earlier timestamp counts from its arrival."""


@hookimpl
def sluicegate_policy_model() -> type[PolicyModel]:
    """Add the delays and their parameters."""
    return DelayPolicies


@hookimpl
@only_with(_DELAYS)
def sluicegate_delay_rule(topic: TopicName, policies: EffectivePolicies) -> DelayRule | None:
    """Create the rule of a topic with a delay. An observe-only fixed delay is not applied."""
    fixed_ms, max_ms = _applied_fixed_ms(policies), int(policies.number(MAX_DELAY))
    header = "" if policies.observes(DELAY_HEADER) else policies.text(DELAY_HEADER, "")
    if fixed_ms == max_ms == 0 and not header:
        return None
    received = policies.text(DELAY_CLOCK, "publish_time") == "receive_time"
    return DelayRule(
        fixed_ms,
        _ms(policies, TIMESTAMP_AHEAD, DEFAULT_AHEAD_MS),
        "receive_time" if received else "publish_time",
        max_ms=max_ms,
        tick_ms=int(policies.number(TICK_TIME)),
        max_behind_ms=_ms(policies, TIMESTAMP_BEHIND, DEFAULT_BEHIND_MS),
        header=header,
    )


@hookimpl
@only_with(_DELAYS)
def sluicegate_policy_checks(
    topic: TopicName, policies: EffectivePolicies, context: TopicState
) -> Sequence[Check]:
    """Refuse messages whose delivery time exceeds the topic's limits."""
    if _applied_fixed_ms(policies):
        return [_timestamp_check(topic, policies)]
    checks = [_max_check(policies)] if policies.number(MAX_DELAY) else []
    if name := policies.text(DELAY_HEADER, ""):
        checks.append(_header_check(topic, policies, name))
    return checks


def _timestamp_check(topic: TopicName, policies: EffectivePolicies) -> Check:
    limit_ms = _ms(policies, TIMESTAMP_AHEAD, DEFAULT_AHEAD_MS)

    def check(op: Operation, now_ns: int) -> Decision | None:
        if op.ahead_ms <= limit_ms:
            return None
        text = texts.timestamp_ahead(topic.full, op.ahead_ms, limit_ms)
        return rejected(policies, TIMESTAMP_AHEAD, text, op.ahead_ms, limit_ms)

    return Check(TIMESTAMP_AHEAD, (OperationKind.PUBLISH,), check, Stage.SIZE)


def _max_check(policies: EffectivePolicies) -> Check:
    limit_ms = int(policies.number(MAX_DELAY))

    def check(op: Operation, now_ns: int) -> Decision | None:
        if op.delay_ms <= limit_ms:
            return None
        return rejected(policies, MAX_DELAY, texts.delivery_delay(limit_ms), op.delay_ms, limit_ms)

    return Check(MAX_DELAY, (OperationKind.PUBLISH,), check, Stage.SIZE)


def _header_check(topic: TopicName, policies: EffectivePolicies, name: str) -> Check:
    def check(op: Operation, now_ns: int) -> Decision | None:
        try:
            delivery_by_header(op.contents, name)
        except ValueError as error:
            return rejected(policies, DELAY_HEADER, texts.delay_header(topic.full, name, str(error)))
        return None

    return Check(
        DELAY_HEADER, (OperationKind.PUBLISH,), check, Stage.CUSTOM, fail_open=False, reads=(Part.HEADERS,)
    )


def _applied_fixed_ms(policies: EffectivePolicies) -> int:
    if policies.observes(FIXED_DELAY):
        return 0
    return int(policies.number(FIXED_DELAY))


def _ms(policies: EffectivePolicies, name: str, unset_ms: int) -> int:
    """A duration in ms for which 0 differs from unset."""
    return int(policies.number(name)) if name in policies.values else unset_ms
