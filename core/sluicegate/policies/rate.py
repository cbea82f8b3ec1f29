"""A limit on messages and bytes per second, as the policies set it, and the checks of one on publishing."""

from collections.abc import Sequence
from dataclasses import dataclass

from sluicegate.engine.bucket import DualBucket
from sluicegate.engine.check import Check, CheckCall, Stage
from sluicegate.engine.leased_bucket import LeasedBucket
from sluicegate.engine.state import SubscriptionState, TopicState
from sluicegate.engine.wait_queue import WaitQueue
from sluicegate.model import (
    Action,
    Decision,
    EffectivePolicies,
    Mode,
    ModeKind,
    Operation,
    OperationKind,
    Outcome,
    Reason,
)
from sluicegate.policies.stopping import asking

_PUBLISH = (OperationKind.PUBLISH,)
_OVER = {"delay": Action.DELAY, "reject": Action.REJECT, "drop": Action.DROP}
BURST_SECONDS = "burst_seconds"
DEFAULT_BURST_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Rate:
    """The limit on one kind of rate of a topic, for one mode."""

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
    mode: Mode
    is_alone: bool = False
    """True if it limits messages or bytes alone: those who share one may not share the other."""
    owner: str = ""
    """Whose limit it is; empty for the one that everybody shares."""

    @property
    def charges_later(self) -> bool:
        """Whether it is charged once all checks have allowed: an enforced limit may hold the message yet."""
        return self.is_alone or self.mode.kind is ModeKind.CANARY

    @property
    def name(self) -> str:
        """Name of the policy; the one for messages if both are set."""
        return self.names[0] if self.messages_per_s else self.names[1]

    @property
    def key(self) -> str:
        """Key of the limiter."""
        # Messages and bytes may have canaries that differ, but only one mode of each other kind.
        key = self.mode.own(self.name if self.charges_later else self.names[0])
        return f"{key} of {self.owner}" if self.owner else key

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

    def holding(
        self, bucket: DualBucket, op: Operation, wait: int, now_ns: int, action: Action = Action.DELAY
    ) -> Decision:
        """The decision where the bucket is short."""
        if bucket.awaits_grant:
            return asking(self.name, op, wait, self.levels[not self.messages_per_s])
        return Decision(action, (self.reason(bucket, op, now_ns),), delay_ns=wait)


def rates_of(policies: EffectivePolicies, what: str, messages: str, nbytes: str) -> list[Rate]:
    """The limits on one kind of rate: none, one, or two if its dimensions differ in mode or in scope."""
    names = (messages, nbytes)
    if policies.values.keys().isdisjoint(names):
        return []
    is_alone = _are_apart(policies, names)
    rates = []
    for group in [(messages,), (nbytes,)] if is_alone else [names]:
        for mode in policies.modes(group):
            limited = [name for name in group if policies.mode(name) == mode and policies.number(name)]
            if limited:
                owner, burst = _owner_and_burst(policies, limited)
                limits = [policies.number(name) if name in limited else 0 for name in names]
                levels = policies.level(messages), policies.level(nbytes)
                on_limit = policies.on_limit(names)
                rates.append(
                    Rate(what, names, limits[0], limits[1], burst, levels, on_limit, mode, is_alone, owner)
                )
    return rates


def _are_apart(policies: EffectivePolicies, names: Sequence[str]) -> bool:
    """Whether two dimensions of a topic need limiters of their own, as scopes may set one of them alone."""
    if {name.rpartition(".")[2] for name in policies.scoped}.isdisjoint(names):
        return False
    common = policies.common or policies
    return all(name in policies.scoped or common.number(name) for name in names)


def _owner_and_burst(policies: EffectivePolicies, names: Sequence[str]) -> tuple[str, float]:
    """Whose limit it is, and its burst; the burst of a scope shapes no limit that others share."""
    fields = [field for name in names for field in (name, f"mode.{name}")]
    if policies.common is not None and not policies.owner(*fields):
        policies = policies.common
    owner = policies.owner(*fields, BURST_SECONDS)
    return owner, policies.number(BURST_SECONDS) or DEFAULT_BURST_SECONDS


def publish_rates(policies: EffectivePolicies) -> list[Rate]:
    """The limits on publishing to a topic."""
    return rates_of(policies, "Publish", "max_publish_rate", "max_publish_rate_bytes")


def publish_checks(rate: Rate, state: TopicState) -> Sequence[Check]:
    """The checks of one limit on publishing."""
    queue = rate.queue(state, state.now_ns)
    if rate.charges_later:
        checks = _LaterCharged(rate, queue)
        return (
            Check(rate.name, _PUBLISH, checks.check, Stage.RATE),
            Check(rate.name, _PUBLISH, checks.charge, Stage.ACCOUNT),
        )
    if rate.mode.observes or rate.on_limit != "delay":
        call = _refusing_check(rate, queue.bucket)
    else:
        kind = _SharedPublishCheck if isinstance(queue.bucket, LeasedBucket) else _PublishCheck
        call = kind(rate, queue).check
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
        wait = self.queue.take(op, now_ns)
        if wait == 0:
            return None
        return Decision(Action.DELAY, (self.rate.reason(bucket, op, now_ns),), delay_ns=wait)


class _SharedPublishCheck(_PublishCheck):
    """The check of a limit that gateways share."""

    __slots__ = ()

    def check(self, op: Operation, now_ns: int) -> Decision | None:
        # <hot>
        queue = self.queue
        bucket = queue.bucket
        wait = bucket.take(op.messages, op.bytes, now_ns) if queue.first is None else 1
        if wait == 0 or (wait := queue.take(op, now_ns)) == 0:
            return None
        return self.rate.holding(bucket, op, wait, now_ns)


class _LaterCharged:
    """Checks first, and charges once all checks have allowed.

    With a canary the messages of all clients count, but what passes in spite of the limit uses nothing that
    the canary waits for.
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
    """Refuse operations that would have to wait, and do not queue them."""

    def check(op: Operation, now_ns: int) -> Decision | None:
        wait = bucket.take(op.messages, op.bytes, now_ns)
        return _refusal(rate, bucket, op, wait, now_ns) if wait else None

    return check


def _refusal(rate: Rate, bucket: DualBucket, op: Operation, wait: int, now_ns: int) -> Decision:
    action = _OVER[rate.on_limit]
    if action is Action.DROP and op.reliable:
        action = Action.REJECT
    return rate.holding(bucket, op, wait, now_ns, action)
