"""A quota times a factor: a bucket of its own, so that no reason ever releases another."""

from sluicegate.engine.bucket import SECOND_NS, DualBucket
from sluicegate.engine.factors import Factor
from sluicegate.engine.wait_queue import WaitQueue
from sluicegate.model import Action, Decision, Operation, Outcome, Reason

PAUSE_NS = SECOND_NS // 4
"""How long an operation is held at factor 0 before its next attempt."""


class ThrottledLimit:
    """The limit that one factor leaves of one quota.

    Every admitted operation charges the quota's own bucket, but this bucket only while the factor is below 1.
    When the factor falls below 1, this bucket starts with that share of the quota's bucket, but with no more
    than it can have gained since its last use, so that changes of the factor admit no further burst.
    Between two uses it fills at the lowest rate in that time. Hence, while the factor is below 1: admitted <=
    integral of quota x factor over time + the largest bucket in that time. An operation larger than the
    bucket passes when the bucket is full, and adds its excess over the smallest bucket.

    :param factor: the factor.
    :param base: the quota's own bucket, whose rates may change.
    :param queue: the queue of this limit, whose bucket gets the rates of this limit; one of this process if
        None.
    """

    __slots__ = ("_base", "_changes", "_flips", "_rates", "factor", "queue")

    def __init__(self, factor: Factor, base: DualBucket, queue: WaitQueue | None = None) -> None:
        self.factor = factor
        self.queue = queue or WaitQueue(DualBucket(0, 0, base.burst_seconds, base.updated_ns))
        self._base = base
        self._flips = -1
        """The flips of the factor's switch at the last use; -1 before the first."""
        self._changes = 0
        self._rates = (0.0, 0.0, 0.0)

    @property
    def bucket(self) -> DualBucket:
        """The bucket, with the rates of its last use."""
        return self.queue.bucket

    def ready(self, op: Operation, now_ns: int) -> int:
        """As `WaitQueue.ready`; the factor is above 0."""
        # <hot> for every publish while a factor restricts; `follow` and `WaitQueue.ready` in the usual case
        self.follow(now_ns)
        queue = self.queue
        if queue.first is None and queue.bucket.has(op.messages, op.bytes, now_ns):
            return 0
        return queue.ready(op, now_ns)

    def wait_outside(self, op: Operation, now_ns: int) -> int:
        """How long until an operation would pass that joins no queue; the factor is above 0."""
        self.follow(now_ns)
        return self.queue.wait_outside(op, now_ns)

    def charge(self, op: Operation, now_ns: int) -> None:
        """Charge an admitted operation."""
        self.queue.bucket.charge(op.messages, op.bytes, now_ns)

    def follow(self, now_ns: int) -> None:
        """Set the bucket to the current rates."""
        factor, base = self.factor, self._base
        rates = (base.messages_per_s, base.bytes_per_s, base.burst_seconds)
        if factor.changes == self._changes and rates == self._rates and self._flips >= 0:
            return
        if self._flips >= 0:
            self._fill(now_ns)
        self.queue.bucket.reconfigure(
            base.messages_per_s * factor.value, base.bytes_per_s * factor.value, base.burst_seconds, now_ns
        )
        if factor.switch.flips != self._flips:
            self._take_share(now_ns)
        self._flips, self._changes, self._rates = factor.switch.flips, factor.changes, rates

    def _fill(self, now_ns: int) -> None:
        """Refill for the time since its last use."""
        base, lowest = self._base, self.factor.lowest_since(self._changes)
        self.queue.bucket.fill(base.message_rate * lowest, base.byte_rate * lowest, now_ns)

    def _take_share(self, now_ns: int) -> None:
        """Limit its balance to the factor's share of the quota's bucket."""
        value = self.factor.value
        messages, nbytes = (left * value if left > 0 else left for left in self._base.balance(now_ns))
        self.queue.bucket.bound(messages, nbytes)


def paused(factor: Factor, topic: str, action: Action = Action.DELAY) -> Decision:
    """The decision at factor 0.

    :param action: REJECT if an immediate error is better than waiting.
    """
    text = f"Publishing is paused by {factor.name} for topic {topic}{_because(factor)}. {factor.text}"
    reason = Reason(factor.name, Outcome.PRECONDITION, text)
    return Decision(action, (reason,), delay_ns=PAUSE_NS, factor=0.0)


def reduced(limit: ThrottledLimit, op: Operation, what: str, wait: int, now_ns: int) -> Decision:
    """The decision where a factor leaves too little of a quota.

    :param what: what the quota limits, for the text: `topic T`.
    :param wait: ns after which to ask again.
    """
    factor = limit.factor
    short = limit.bucket.shortage(op.messages, op.bytes, now_ns)
    text = (
        f"Publish rate reduced to {factor.value:.0%} by {factor.name} for {what}{_because(factor)}. "
        f"{short} {factor.text}"
    )
    reason = Reason(factor.name, Outcome.LIMIT_REACHED, text, short.current, short.limit)
    return Decision(Action.DELAY, (reason,), delay_ns=wait, factor=factor.value)


def _because(factor: Factor) -> str:
    return f": {factor.why}" if factor.why else ""
