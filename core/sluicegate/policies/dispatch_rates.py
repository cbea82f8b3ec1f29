"""Checks for the rates of dispatch: from a topic, and to each of its subscriptions."""

from collections.abc import Callable, Sequence

from sluicegate.engine.bucket import DualBucket
from sluicegate.engine.check import Check, CheckCall, Stage
from sluicegate.engine.state import TopicState
from sluicegate.engine.wait_queue import LONGEST_WAIT_NS, WaitQueue
from sluicegate.model import Action, Decision, EffectivePolicies, Operation, OperationKind, Reason
from sluicegate.policies.rate import Rate, rates_of
from sluicegate.policies.stopping import asking

_TOPIC = ("max_dispatch_rate", "max_dispatch_rate_bytes")
_SUBSCRIPTION = ("max_subscription_dispatch_rate", "max_subscription_dispatch_rate_bytes")
_DISPATCH = (OperationKind.DISPATCH,)


def dispatch_checks(policies: EffectivePolicies, state: TopicState) -> list[Check]:
    """The checks of a topic: one for each mode that its dispatch rates have, and for each rate of its own."""
    rates = (
        *rates_of(policies, "Dispatch", *_TOPIC),
        *rates_of(policies, "Subscription dispatch", *_SUBSCRIPTION),
    )
    checks = []
    for mode in policies.modes((*_TOPIC, *_SUBSCRIPTION)):
        of_mode = [rate for rate in rates if rate.mode == mode]
        together = {rate.names: rate for rate in of_mode if not rate.is_alone}
        for own in (together, *({rate.names: rate} for rate in of_mode if rate.is_alone)):
            if own:
                checks += _checks(own.get(_TOPIC), own.get(_SUBSCRIPTION), state)
    return checks


def _checks(topic: Rate | None, subscription: Rate | None, state: TopicState) -> list[Check]:
    """The checks of rates that are charged together."""
    first = topic or subscription
    assert first is not None  # noqa: S101 - one of them is there
    take = _dispatch_check(topic, subscription, state)
    if not first.charges_later:
        return [Check(first.name, _DISPATCH, take, Stage.RATE, takes=True)]
    return [
        Check(first.name, _DISPATCH, _looking_check(topic, subscription, state), Stage.RATE),
        Check(first.name, _DISPATCH, _only_charging(take), Stage.ACCOUNT),
    ]


def _looking_check(topic: Rate | None, subscription: Rate | None, state: TopicState) -> CheckCall:
    """Check as `_dispatch_check` does, but charge nothing: an enforced limit may hold the dispatch yet."""
    topic_bucket = topic.queue(state, state.now_ns).bucket if topic else None
    limiter_of = _subscription_limiters(subscription, state) if subscription else None

    def check(op: Operation, now_ns: int) -> Decision | None:
        limits: list[tuple[Rate | None, DualBucket | None]] = [(topic, topic_bucket)]
        if limiter_of is not None and (op.subscription or op.also):
            names = (op.subscription, *op.also)
            limits += [(subscription, limiter_of(name, now_ns).bucket) for name in names]
        refusal = _dispatch_refusal(op, now_ns, limits)
        return refusal if refusal.reasons else None

    return check


def _only_charging(take: CheckCall) -> CheckCall:
    """Charge what has passed. What would have been held is not charged: it passed outside of the canary."""

    def charge(op: Operation, now_ns: int) -> None:
        take(op, now_ns)

    return charge


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
    wait, drop = 1, False
    reasons: list[Reason] = []
    for rate, bucket in limits:
        if rate is None or bucket is None:
            continue
        own_wait = bucket.wait(op.messages, op.bytes, now_ns)
        if own_wait > 0:
            wait = max(wait, own_wait)
            if bucket.awaits_grant:
                reasons += asking(rate.name, op, own_wait).reasons
                continue
            drop = drop or rate.on_limit == "drop"
            reasons.append(rate.reason(bucket, op, now_ns))
    action = Action.DROP if drop and not op.reliable else Action.DELAY
    return Decision(action, tuple(reasons), delay_ns=min(wait, LONGEST_WAIT_NS))
