"""Rate limits on publishing to a topic and on dispatch, from the topic and to each subscription.

Messages and bytes are limited together: an operation passes if both suffice, and is then charged for both.
Otherwise it waits in a queue (`delay`), is refused (`reject`) or dropped (`drop`, only for messages without
a delivery guarantee). Reliable dispatch is only ever delayed.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from sluicegate.config import ByteRate, MessageRate, PolicyModel, Seconds
from sluicegate.config.asking import only_with
from sluicegate.config.models import OnLimit
from sluicegate.engine.check import Check
from sluicegate.engine.state import TopicState
from sluicegate.hooks import hookimpl
from sluicegate.model import (
    EffectivePolicies,
    TopicName,
)
from sluicegate.policies.dispatch_rates import dispatch_checks
from sluicegate.policies.rate import BURST_SECONDS, DEFAULT_BURST_SECONDS, publish_checks, publish_rates


class RatePolicies(PolicyModel):
    """Limits on messages and bytes per second."""

    aliases: ClassVar[Mapping[str, str]] = {
        "max_publish_rate_msg": "max_publish_rate",
        "max_publish_throughput_bytes": "max_publish_rate_bytes",
    }
    on_limit_actions: ClassVar[Mapping[str, tuple[OnLimit, ...]]] = {
        "max_publish_rate": ("delay", "reject", "drop"),
        "max_publish_rate_bytes": ("delay", "reject", "drop"),
        "max_dispatch_rate": ("delay", "drop"),
        "max_dispatch_rate_bytes": ("delay", "drop"),
        "max_subscription_dispatch_rate": ("delay", "drop"),
        "max_subscription_dispatch_rate_bytes": ("delay", "drop"),
    }
    parameters: ClassVar[frozenset[str]] = frozenset({BURST_SECONDS})
    defaults: ClassVar[Mapping[str, int | float | str | bool]] = {BURST_SECONDS: DEFAULT_BURST_SECONDS}

    max_publish_rate: MessageRate | None = None
    """Messages per second that all producers together can publish to one topic; 0 is unlimited. Twice the
    usual peak leaves headroom and still stops a runaway producer."""
    max_publish_rate_bytes: ByteRate | None = None
    """Bytes per second that all producers together can publish to one topic; 0 is unlimited."""
    max_dispatch_rate: MessageRate | None = None
    """Messages per second delivered from one topic to all subscriptions; 0 is unlimited."""
    max_dispatch_rate_bytes: ByteRate | None = None
    """Bytes per second delivered from one topic to all subscriptions; 0 is unlimited."""
    max_subscription_dispatch_rate: MessageRate | None = None
    """Messages per second delivered to each subscription of a topic; 0 is unlimited. Prevents a subscription
    that catches up from starving the others."""
    max_subscription_dispatch_rate_bytes: ByteRate | None = None
    """Bytes per second delivered to each subscription of a topic; 0 is unlimited."""
    burst_seconds: Seconds | None = None
    """Size of the burst that can pass after idle time, in seconds of the rate; 1 if unset. In every window of
    T seconds at most rate x T plus this burst passes."""


@hookimpl
def sluicegate_policy_model() -> type[PolicyModel]:
    """Add the rates of publishing and dispatch, and their common burst."""
    return RatePolicies


@hookimpl
@only_with(RatePolicies.on_limit_actions)
def sluicegate_policy_checks(
    topic: TopicName, policies: EffectivePolicies, context: TopicState
) -> Sequence[Check]:
    """Check publishing and dispatch."""
    publish = [check for rate in publish_rates(policies) for check in publish_checks(rate, context)]
    return [*publish, *dispatch_checks(policies, context)]
