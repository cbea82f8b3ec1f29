"""The limit of one throttled topic, with a switch: while it is off, a gate calls none of its checks."""

from sluicegate.engine.buckets import LOCAL
from sluicegate.engine.check import Check, Stage
from sluicegate.engine.state import TopicState
from sluicegate.engine.switch import Switch
from sluicegate.features.adaptive.settings import ENABLED, POLICY
from sluicegate.model import Action, Decision, EffectivePolicies, Operation, OperationKind, Outcome, Reason

_ALONE = f"{POLICY}_alone"
"""Key of the bucket of a worker's own target."""
_BURST = "burst_seconds"
_DEFAULT_BURST_SECONDS = 1.0


class AdaptiveLimiter:
    """A token bucket and a wait queue for throttling, separate from those of configured rate limits.

    Where limits are shared, so is the bucket, as the target is what the whole fleet may pass. A target for
    this worker alone has a bucket of its own.

    Belongs to the thread that owns the gates. The controller changes it only through `BrokerContext.apply`.

    :param state: the topic's state, which owns bucket and queue.
    :param policies: the topic's policies.
    """

    __slots__ = (
        "_is_alone",
        "_level",
        "_state",
        "burst_seconds",
        "factor",
        "natural",
        "queue",
        "switch",
        "why",
    )

    def __init__(self, state: TopicState, policies: EffectivePolicies) -> None:
        self._state = state
        self._is_alone = False
        self.switch = Switch()
        """On while the topic is throttled."""
        self.factor = 1.0
        """Target rate as a fraction of the natural one."""
        self.natural = (0.0, 0.0)
        """Natural messages and bytes per second, for texts."""
        self.why = ""
        """Both pressures, for texts."""
        self.queue = state.limiter(POLICY, 0, 0, _DEFAULT_BURST_SECONDS, state.now_ns)
        """Those who wait for the bucket in use."""
        self.update(policies, state.now_ns)

    def update(self, policies: EffectivePolicies, now_ns: int) -> None:
        """Apply the policies that a gate is compiled for; everybody on the topic shares the limit."""
        policies = policies.common or policies
        self._level = policies.level(ENABLED)
        self.burst_seconds = policies.number(_BURST) or _DEFAULT_BURST_SECONDS
        bucket = self.queue.bucket
        bucket.reconfigure(bucket.messages_per_s, bucket.bytes_per_s, self.burst_seconds, now_ns)

    def checks(self) -> tuple[Check, Check]:
        """The checks while the switch is on: a check, and a charge once all checks have allowed."""
        kinds = (OperationKind.PUBLISH,)
        return (
            Check(POLICY, kinds, self.check, Stage.RATE, switch=self.switch),
            Check(POLICY, kinds, self.charge, Stage.ACCOUNT, switch=self.switch),
        )

    def limit(
        self,
        messages_per_s: int,
        bytes_per_s: int,
        natural: tuple[float, float],
        why: str,
        now_ns: int,
        *,
        alone: bool = False,
    ) -> None:
        """Throttle to these rates from now on.

        :param messages_per_s: 0 is unlimited, as no natural rate is known.
        :param bytes_per_s: 0 is unlimited.
        :param natural: natural messages and bytes per second.
        :param why: both pressures, as a clause for texts.
        :param alone: True if these are rates of this worker alone, though its fleet shares limits.
        """
        self._use_bucket(alone, now_ns)
        bucket = self.queue.bucket
        bucket.reconfigure(messages_per_s, bytes_per_s, self.burst_seconds, now_ns)
        if not self.switch.on:  # start empty: a burst would add to the pressure
            bucket.message_balance = min(bucket.message_balance, 0.0) if messages_per_s else float("inf")
            bucket.byte_balance = min(bucket.byte_balance, 0.0) if bytes_per_s else float("inf")
            bucket.updated_ns = now_ns
        targets = zip((messages_per_s, bytes_per_s), natural, strict=True)
        self.factor = min([1.0, *(rate / part for rate, part in targets if part)])
        self.natural = natural
        self.why = why
        self.switch.set(True)

    def release(self, now_ns: int) -> None:
        """Lift the limit. Waiting operations pass at their next attempt, within a second."""
        self.switch.set(False)
        self.factor = 1.0
        self.queue.bucket.reconfigure(0, 0, self.burst_seconds, now_ns)

    def _use_bucket(self, alone: bool, now_ns: int) -> None:
        """Those who wait for the other bucket queue anew with their next attempt."""
        if alone is not self._is_alone:
            self.release(now_ns)
            key, buckets = (_ALONE, LOCAL) if alone else (POLICY, None)
            self.queue = self._state.limiter(key, 0, 0, self.burst_seconds, now_ns, buckets)
            self._is_alone = alone

    def check(self, op: Operation, now_ns: int) -> Decision | None:
        """Delay an operation that is not next in the queue or exceeds the balance. Charges nothing."""
        wait = self.queue.ready(op, now_ns)
        if wait == 0:
            return None
        return Decision(Action.DELAY, (self._reason(op, now_ns),), delay_ns=wait, factor=self.factor)

    def charge(self, op: Operation, now_ns: int) -> None:
        """Charge an operation that all checks have allowed."""
        self.queue.bucket.charge(op.messages, op.bytes, now_ns)

    def _reason(self, op: Operation, now_ns: int) -> Reason:
        bucket = self.queue.bucket
        by_bytes = not bucket.messages_per_s or (
            bucket.bytes_per_s > 0 and bucket.wait(0, op.bytes, now_ns) > bucket.wait(op.messages, 0, now_ns)
        )
        natural = self.natural[by_bytes]
        limit = bucket.bytes_per_s if by_bytes else bucket.messages_per_s
        unit = "bytes/s" if by_bytes else "messages/s"
        text = (
            f"Publishing to topic {self._state.topic.full} is throttled because of pressure on the broker. "
            f"Current: {natural:.0f} {unit} naturally, Limit: {limit:.0f} {unit} ({self.why}). "
            f"Slow down, let consumers catch up, or see the {POLICY} policies."
        )
        return Reason(POLICY, Outcome.LIMIT_REACHED, text, natural, limit, self._level)
