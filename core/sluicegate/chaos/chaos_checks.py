"""What the policies decide, as checks."""

from collections.abc import Callable, Iterator, Sequence
from random import Random

from sluicegate.chaos.chaos_fields import (
    CORRUPT,
    DROP,
    KILL,
    LATENCY,
    REFUSAL,
    SEED,
    SLOW_CONSUMER,
    UNTIL,
    share_of,
    time_of,
)
from sluicegate.engine.bucket import DualBucket
from sluicegate.engine.buckets import LOCAL
from sluicegate.engine.check import Check, CheckCall, Stage
from sluicegate.engine.state import TopicState
from sluicegate.engine.wait_queue import LONGEST_WAIT_NS
from sluicegate.model import (
    Action,
    Breakage,
    Decision,
    EffectivePolicies,
    Operation,
    OperationKind,
    Outcome,
    Reason,
    TopicName,
)
from sluicegate.policies.stopping import limited

IsOver = Callable[[], bool]
"""Tells whether faults have ended."""

_PLUGIN = "sluicegate.chaos"
_NS_PER_MS = 1_000_000
_PUBLISH = (OperationKind.PUBLISH,)
_DISPATCH = (OperationKind.DISPATCH,)
_EACH = (OperationKind.PUBLISH, OperationKind.DISPATCH)
_BURST_SECONDS = 1.0
_REJECTED = {
    REFUSAL: (_PUBLISH, Outcome.LIMIT_REACHED, None, "The message was refused"),
    KILL: (_EACH, Outcome.PRECONDITION, Breakage.CONNECTION, "The connection was closed"),
    CORRUPT: (_PUBLISH, Outcome.PRECONDITION, Breakage.RESPONSE, "The response was made unreadable"),
}
"""Faults that reject: the operations that they are for, and how."""


def checks_of(topic: TopicName, policies: EffectivePolicies, state: TopicState) -> Sequence[Check]:
    """The checks of one topic; none without an end, or once it has come.

    They count as `Stage.COUNT`, as exempt principals are spared.
    """
    context, until = state.context, policies.text(UNTIL, "")
    if context is None or not until:  # without a gateway there is no client to test
        return []
    wall_ms, end_ms = context.wall_ms, time_of(until) * 1000
    if wall_ms() >= end_ms:
        return []
    return list(_checks(topic, policies, state, lambda: wall_ms() >= end_ms))


def _checks(
    topic: TopicName, policies: EffectivePolicies, state: TopicState, is_over: IsOver
) -> Iterator[Check]:
    for policy, (kinds, outcome, breaks, what) in _REJECTED.items():
        if share := share_of(policies.text(policy, "")):
            reason = _reason(policies, policy, outcome, f"{what} on topic {topic.full}", share)
            fault = Decision(Action.REJECT, (reason,), breaks=breaks)
            # Nobody waits for a response to what is not reliable.
            only = True if breaks is Breakage.RESPONSE else None
            yield Check(policy, kinds, _by_chance(policies, state, is_over, fault, share, only), Stage.COUNT)
    if share := share_of(policies.text(DROP, "")):
        text = f"The message was dropped on topic {topic.full}"
        fault = Decision(Action.DROP, (_reason(policies, DROP, Outcome.LIMIT_REACHED, text, share),))
        yield Check(DROP, _EACH, _by_chance(policies, state, is_over, fault, share, False), Stage.COUNT)
    # Behind all chances: what it holds was drawn before.
    if milliseconds := policies.number(LATENCY):
        yield Check(LATENCY, _EACH, _latency(topic, policies, int(milliseconds), is_over), Stage.COUNT)
    if rate := policies.number(SLOW_CONSUMER):
        slow = _SlowConsumer(policies, state, rate, is_over)
        yield Check(SLOW_CONSUMER, _DISPATCH, slow.look, Stage.RATE)
        yield Check(SLOW_CONSUMER, _DISPATCH, slow.charge, Stage.ACCOUNT)


def _reason(policies: EffectivePolicies, policy: str, outcome: Outcome, what: str, share: float) -> Reason:
    text = f"{what}: injected by {policy}. This is a test; it ends at {policies.text(UNTIL, '')}."
    return Reason(policy, outcome, text, limit=share, level=policies.level(policy))


def _by_chance(
    policies: EffectivePolicies,
    state: TopicState,
    is_over: IsOver,
    fault: Decision,
    share: float,
    only: bool | None,
) -> CheckCall:
    """Decide a fault for a share of operations.

    :param only: True or False for one that is only for reliable or for other operations.
    """
    draw = _generator(fault.reasons[0].policy, policies, state).random

    def check(op: Operation, now_ns: int) -> Decision | None:
        # One that is held was drawn before: drawn at each attempt, it would be hit more often.
        if op.held_ns or (only is not None and op.reliable is not only) or is_over():
            return None
        return fault if draw() < share else None

    return check


def _generator(policy: str, policies: EffectivePolicies, state: TopicState) -> Random:
    """The generator of one policy on one topic, which goes on where gates are compiled again.

    A new one if it is to begin with another seed.
    """
    seed, key = policies.values.get(SEED), f"{_PLUGIN} {policy}"
    known = state.plugin_data.get(key)
    if isinstance(known, tuple) and known[0] == seed:
        generator: Random = known[1]
        return generator
    generator = Random(None if seed is None else f"{seed} {policy} {state.topic.full}")  # noqa: S311 - no secret
    state.plugin_data[key] = (seed, generator)
    return generator


def _latency(topic: TopicName, policies: EffectivePolicies, milliseconds: int, is_over: IsOver) -> CheckCall:
    text = (
        f"Topic {topic.full} answers {milliseconds} ms late: injected by {LATENCY}. "
        f"This is a test; it ends at {policies.text(UNTIL, '')}."
    )
    latency_ns = milliseconds * _NS_PER_MS

    def check(op: Operation, now_ns: int) -> Decision | None:
        left_ns = op.held_ns + latency_ns - now_ns if op.held_ns else latency_ns
        if left_ns <= 0 or is_over():
            return None
        return limited(policies, LATENCY, text, 0, milliseconds, min(left_ns, LONGEST_WAIT_NS))

    return check


class _SlowConsumer:
    """Holds deliveries to each subscription, and charges those that all other checks have allowed."""

    def __init__(self, policies: EffectivePolicies, state: TopicState, rate: float, is_over: IsOver) -> None:
        self._policies = policies
        self._state = state
        self._rate = rate
        self._is_over = is_over

    def look(self, op: Operation, now_ns: int) -> Decision | None:
        """Hold a delivery for which the rate is used up."""
        if self._is_over():
            return None
        wait_ns = max(bucket.wait(op.messages, op.bytes, now_ns) for bucket in self._buckets(op, now_ns))
        if wait_ns <= 0:
            return None
        text = (
            f"Subscription {op.subscription} of topic {op.topic} takes {self._rate:g} messages/s: injected "
            f"by {SLOW_CONSUMER}. This is a test; it ends at {self._policies.text(UNTIL, '')}."
        )
        wait_ns = min(wait_ns, LONGEST_WAIT_NS)
        return limited(self._policies, SLOW_CONSUMER, text, op.messages, self._rate, wait_ns)

    def charge(self, op: Operation, now_ns: int) -> None:
        """Charge a delivery that goes on."""
        if not self._is_over():
            for bucket in self._buckets(op, now_ns):
                bucket.charge(op.messages, op.bytes, now_ns)

    def _buckets(self, op: Operation, now_ns: int) -> list[DualBucket]:
        return [
            self._state.subscription(name, now_ns)
            .limiter(SLOW_CONSUMER, self._rate, 0, _BURST_SECONDS, now_ns, LOCAL)
            .bucket
            for name in (op.subscription, *op.also)
        ]
