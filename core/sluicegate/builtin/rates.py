"""Rate limits on publishing to a topic and on dispatch, from the topic and to each subscription.

Messages and bytes are limited together: an operation passes if both suffice, and is then charged for both.
Otherwise it waits for its turn (`delay`), is refused (`reject`) or dropped (`drop`, only for messages without
a delivery guarantee). Reliable dispatch is only ever delayed.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from pydantic import Field

from sluicegate.builtin.dispatch_rates import dispatch_checks
from sluicegate.builtin.rate import BURST_SECONDS, DEFAULT_BURST_SECONDS, Rate, publish_rates
from sluicegate.config import ByteRate, MessageRate, PolicyModel, Seconds
from sluicegate.config.asking import only_with
from sluicegate.config.models import OnLimit
from sluicegate.engine.bucket import DualBucket
from sluicegate.engine.check import Check, CheckCall, Stage
from sluicegate.engine.state import TopicState
from sluicegate.engine.wait_queue import WaitQueue
from sluicegate.hooks import hookimpl
from sluicegate.model import (
    Action,
    Decision,
    EffectivePolicies,
    ModeKind,
    Operation,
    OperationKind,
    TopicName,
)

_PUBLISH = (OperationKind.PUBLISH,)
_OVER = {"delay": Action.DELAY, "reject": Action.REJECT, "drop": Action.DROP}


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

    max_publish_rate: MessageRate | None = Field(
        default=None,
        description="Messages per second that all producers together can publish to one topic; 0 is "
        "unlimited. Twice the usual peak leaves headroom and still stops a runaway producer.",
    )
    max_publish_rate_bytes: ByteRate | None = Field(
        default=None,
        description="Bytes per second that all producers together can publish to one topic; 0 is unlimited.",
    )
    max_dispatch_rate: MessageRate | None = Field(
        default=None,
        description="Messages per second delivered from one topic to all subscriptions; 0 is unlimited.",
    )
    max_dispatch_rate_bytes: ByteRate | None = Field(
        default=None,
        description="Bytes per second delivered from one topic to all subscriptions; 0 is unlimited.",
    )
    max_subscription_dispatch_rate: MessageRate | None = Field(
        default=None,
        description="Messages per second delivered to each subscription of a topic; 0 is unlimited. Prevents "
        "a subscription that catches up from starving the others.",
    )
    max_subscription_dispatch_rate_bytes: ByteRate | None = Field(
        default=None,
        description="Bytes per second delivered to each subscription of a topic; 0 is unlimited.",
    )
    burst_seconds: Seconds | None = Field(
        default=None,
        description="Size of the burst that can pass after idle time, in seconds of the rate; 1 if unset. In "
        "every window of T seconds at most rate x T plus this burst passes.",
    )


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
    publish = [check for rate in publish_rates(policies) for check in _publish_checks(rate, context)]
    return [*publish, *dispatch_checks(policies, context)]


def _publish_checks(rate: Rate, state: TopicState) -> Sequence[Check]:
    queue = rate.queue(state, state.now_ns)
    if rate.mode.kind is ModeKind.CANARY:
        canary = _CanaryCheck(rate, queue)
        return (
            Check(rate.name, _PUBLISH, canary.check, Stage.RATE),
            Check(rate.name, _PUBLISH, canary.charge, Stage.ACCOUNT),
        )
    if rate.mode.observes or rate.on_limit != "delay":
        call = _refusing_check(rate, queue.bucket)
    else:
        call = _PublishCheck(rate, queue).check
    return (Check(rate.name, _PUBLISH, call, Stage.RATE, takes=True),)


class _PublishCheck:
    # A method instead of a closure: CPython calls one method of many objects faster than many closures.

    __slots__ = ("bucket", "queue", "rate")

    def __init__(self, rate: Rate, queue: WaitQueue) -> None:
        self.rate = rate
        self.queue = queue
        self.bucket = queue.bucket

    def check(self, op: Operation, now_ns: int) -> Decision | None:
        # <hot> DualBucket.take inlined for operations within the balance, which saves a call per publish. As
        # there, nothing is called between reading and writing the balance. The remainder is compared with
        # 0.0, because comparing floats is three times faster than comparing a float with an int.
        bucket = self.bucket
        if self.queue.first is None:
            elapsed = now_ns - bucket.updated_ns
            messages = bucket.message_balance + elapsed * bucket.message_rate
            if messages > bucket.message_capacity:
                messages = bucket.message_capacity
            messages -= op.messages
            if messages >= 0.0:
                nbytes = bucket.byte_balance + elapsed * bucket.byte_rate
                if nbytes > bucket.byte_capacity:
                    nbytes = bucket.byte_capacity
                nbytes -= op.bytes
                if nbytes >= 0.0:
                    bucket.message_balance = messages
                    bucket.byte_balance = nbytes
                    bucket.updated_ns = now_ns
                    return None
        wait = self.queue.wait_turn(op, now_ns)
        if wait == 0:
            return None
        return Decision(Action.DELAY, (self.rate.reason(bucket, op, now_ns),), delay_ns=wait)


class _CanaryCheck:
    """Checks first, and charges once all checks have allowed: an enforced limit may hold the message yet.

    Messages of all clients count, but what passes in spite of the limit uses nothing that the canary waits
    for.
    """

    def __init__(self, rate: Rate, queue: WaitQueue) -> None:
        self._rate = rate
        self._queue = queue

    def check(self, op: Operation, now_ns: int) -> Decision | None:
        rate, queue = self._rate, self._queue
        if rate.on_limit == "delay" and rate.mode.applies_to(rate.name, op):
            wait = queue.ready(op, now_ns)
        else:
            wait = queue.wait_outside(op, now_ns)
        return _refusal(rate, queue.bucket, op, wait, now_ns) if wait else None

    def charge(self, op: Operation, now_ns: int) -> None:
        if self._rate.mode.applies_to(self._rate.name, op):
            self._queue.bucket.charge(op.messages, op.bytes, now_ns)
        else:
            self._queue.take_outside(op, now_ns)


def _refusing_check(rate: Rate, bucket: DualBucket) -> CheckCall:
    """Refuse operations that would have to wait, without a place in the queue."""

    def check(op: Operation, now_ns: int) -> Decision | None:
        wait = bucket.take(op.messages, op.bytes, now_ns)
        return _refusal(rate, bucket, op, wait, now_ns) if wait else None

    return check


def _refusal(rate: Rate, bucket: DualBucket, op: Operation, wait: int, now_ns: int) -> Decision:
    action = _OVER[rate.on_limit]
    if action is Action.DROP and op.reliable:
        action = Action.REJECT
    return Decision(action, (rate.reason(bucket, op, now_ns),), delay_ns=wait)
