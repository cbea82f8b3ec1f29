"""Rate limits on publishing to a topic and on dispatch, from the topic and to each subscription.

Messages and bytes are limited together: an operation passes if both suffice, and is then charged for both.
Otherwise it waits for its turn (`delay`), is refused (`reject`) or dropped (`drop`, only for messages without
a delivery guarantee). Reliable dispatch is only ever delayed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from pydantic import Field

from sluicegate.config import ByteRate, MessageRate, PolicyModel, Seconds
from sluicegate.config.asking import only_with
from sluicegate.config.models import OnLimit
from sluicegate.engine.bucket import DualBucket
from sluicegate.engine.check import Check, CheckCall, Stage
from sluicegate.engine.state import SubscriptionState, TopicState
from sluicegate.engine.wait_queue import LONGEST_WAIT_NS, WaitQueue
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

BURST_SECONDS = "burst_seconds"
DEFAULT_BURST_SECONDS = 1.0


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


@dataclass(frozen=True, slots=True)
class Rate:
    """The limit on one kind of rate of a topic, either applied or observe-only."""

    what: str
    names: tuple[str, str]
    """Names of the policies for messages and for bytes."""
    messages_per_s: float
    bytes_per_s: float
    burst_seconds: float
    levels: tuple[str, str]
    """The levels that set these policies."""
    on_limit: str
    """The action above the limit; messages and bytes share it."""
    observed: bool

    @property
    def name(self) -> str:
        """Name of the policy; the one for messages if both are set."""
        return self.names[0] if self.messages_per_s else self.names[1]

    @property
    def key(self) -> str:
        """Key of the limiter. Observe-only limits have another; their debt must never hold real traffic."""
        return f"observed {self.names[0]}" if self.observed else self.names[0]

    def queue(self, holder: TopicState | SubscriptionState, now_ns: int) -> WaitQueue:
        """The limiter, updated to the current rates."""
        return holder.limiter(self.key, self.messages_per_s, self.bytes_per_s, self.burst_seconds, now_ns)

    def reason(self, bucket: DualBucket, op: Operation, now_ns: int) -> Reason:
        """The reason for the dimension (messages or bytes) with the longer wait."""
        short = bucket.shortage(op.messages, op.bytes, now_ns)
        name = self.names[short.by_bytes]
        where = f"topic {op.topic}"
        if self.what == "Subscription dispatch":
            where += f" subscription {op.subscription}"
        text = f"{self.what} rate limit exceeded for {where}. {short} Slow down or increase {name} policy."
        level = self.levels[short.by_bytes]
        return Reason(name, Outcome.LIMIT_REACHED, text, short.current, short.limit, level)


def rates_of(policies: EffectivePolicies, what: str, messages: str, nbytes: str) -> list[Rate]:
    """The limits on one kind of rate: none, one, or two if only one dimension is observe-only."""
    names = (messages, nbytes)
    if policies.values.keys().isdisjoint(names):
        return []
    found = []
    for observed in (False, True):
        limits = [policies.number(name) if observed == policies.observes(name) else 0 for name in names]
        if any(limits):
            burst = policies.number(BURST_SECONDS) or DEFAULT_BURST_SECONDS
            levels = policies.level(messages), policies.level(nbytes)
            on_limit = policies.on_limit(names)
            found.append(Rate(what, names, limits[0], limits[1], burst, levels, on_limit, observed))
    return found


def publish_rates(policies: EffectivePolicies) -> list[Rate]:
    """The limits on publishing to a topic."""
    return rates_of(policies, "Publish", "max_publish_rate", "max_publish_rate_bytes")


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
    publish = publish_rates(policies)
    dispatch = rates_of(policies, "Dispatch", "max_dispatch_rate", "max_dispatch_rate_bytes")
    subscription = rates_of(
        policies,
        "Subscription dispatch",
        "max_subscription_dispatch_rate",
        "max_subscription_dispatch_rate_bytes",
    )
    checks = [
        Check(rate.name, (OperationKind.PUBLISH,), _publish_check(rate, context), Stage.RATE, takes=True)
        for rate in publish
    ]
    for observed in (False, True):  # observe-only limits follow: they are charged once for what passes
        both = [[rate for rate in rates if rate.observed == observed] for rates in (dispatch, subscription)]
        first = next((rate for rates in both for rate in rates), None)
        if first is not None:
            call = _dispatch_check(next(iter(both[0]), None), next(iter(both[1]), None), context)
            checks.append(Check(first.name, (OperationKind.DISPATCH,), call, Stage.RATE, takes=True))
    return checks


def _publish_check(rate: Rate, state: TopicState) -> CheckCall:
    queue = rate.queue(state, state.now_ns)
    if rate.observed or rate.on_limit != "delay":
        return _refusing_check(rate, queue.bucket)
    return _PublishCheck(rate, queue).check


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


def _refusing_check(rate: Rate, bucket: DualBucket) -> CheckCall:
    """Refuse operations that would have to wait, without a place in the queue."""
    over = {"delay": Action.DELAY, "reject": Action.REJECT, "drop": Action.DROP}[rate.on_limit]

    def check(op: Operation, now_ns: int) -> Decision | None:
        wait = bucket.take(op.messages, op.bytes, now_ns)
        if wait == 0:
            return None
        action = Action.REJECT if over is Action.DROP and op.reliable else over
        return Decision(action, (rate.reason(bucket, op, now_ns),), delay_ns=wait)

    return check


def _dispatch_check(topic: Rate | None, subscription: Rate | None, state: TopicState) -> CheckCall:
    """Check the topic's and the subscription's rate together: both are charged, or neither."""
    topic_bucket = topic.queue(state, state.now_ns).bucket if topic else None
    limiter_of = _subscription_limiters(subscription, state) if subscription else None

    def check(op: Operation, now_ns: int) -> Decision | None:
        messages = op.messages
        nbytes = op.bytes
        if limiter_of is None or not (op.subscription or op.also):
            if topic_bucket is None or topic_bucket.take(messages, nbytes, now_ns) == 0:
                return None
            return _dispatch_refusal(op, now_ns, ((topic, topic_bucket),))
        limiter = limiter_of(op.subscription, now_ns)
        if op.also:
            limiters = (limiter, *(limiter_of(name, now_ns) for name in op.also))
            return _take_all(op, now_ns, topic, topic_bucket, subscription, limiters)
        bucket = limiter.bucket
        if bucket.take(messages, nbytes, now_ns) == 0:
            if topic_bucket is None or topic_bucket.take(messages, nbytes, now_ns) == 0:
                limiter.passed_messages += messages
                limiter.passed_bytes += nbytes
                return None
            bucket.charge(-messages, -nbytes, now_ns)  # refund at the same time, as if never charged
        return _dispatch_refusal(op, now_ns, ((topic, topic_bucket), (subscription, bucket)))

    return check


def _take_all(
    op: Operation,
    now_ns: int,
    topic: Rate | None,
    topic_bucket: DualBucket | None,
    subscription: Rate | None,
    limiters: Sequence[WaitQueue],
) -> Decision | None:
    limits = ((topic, topic_bucket), *((subscription, limiter.bucket) for limiter in limiters))
    taken: list[DualBucket] = []
    for _, bucket in limits:
        if bucket is None:
            continue
        if bucket.take(op.messages, op.bytes, now_ns) != 0:
            for charged in taken:
                charged.charge(-op.messages, -op.bytes, now_ns)
            return _dispatch_refusal(op, now_ns, limits)
        taken.append(bucket)
    for limiter in limiters:
        limiter.passed_messages += op.messages
        limiter.passed_bytes += op.bytes
    return None


def _subscription_limiters(rate: Rate, state: TopicState) -> Callable[[str, int], WaitQueue]:
    """Return a function that finds a subscription's limiter, and update all to the current rates."""
    key = rate.key
    subscriptions = state.subscriptions
    for known in subscriptions.values():
        if key in known.limiters:
            rate.queue(known, state.now_ns)

    def limiter_of(name: str, now_ns: int) -> WaitQueue:
        known = subscriptions.get(name)
        queue = known.limiters.get(key) if known is not None else None
        if queue is None:
            queue = rate.queue(state.subscription(name, now_ns), now_ns)
        return queue

    return limiter_of


def _dispatch_refusal(
    op: Operation, now_ns: int, limits: Sequence[tuple[Rate | None, DualBucket | None]]
) -> Decision:
    """Delay by the longest wait, or drop unreliable messages if a limit says so."""
    wait, drop, reasons = 1, False, []
    for rate, bucket in limits:
        if rate is None or bucket is None:
            continue
        own_wait = bucket.wait(op.messages, op.bytes, now_ns)
        if own_wait > 0:
            wait = max(wait, own_wait)
            drop = drop or rate.on_limit == "drop"
            reasons.append(rate.reason(bucket, op, now_ns))
    action = Action.DROP if drop and not op.reliable else Action.DELAY
    return Decision(action, tuple(reasons), delay_ns=min(wait, LONGEST_WAIT_NS))
