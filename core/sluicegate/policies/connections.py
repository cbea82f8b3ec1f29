"""The rate at which producers and consumers can attach to a broker, against reconnect storms."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from sluicegate.config import MessageRate, PolicyModel
from sluicegate.config.asking import only_with
from sluicegate.config.models import OnLimit
from sluicegate.engine import texts
from sluicegate.engine.bucket import DualBucket
from sluicegate.engine.check import Check, Stage
from sluicegate.engine.state import TopicState
from sluicegate.engine.wait_queue import LONGEST_WAIT_NS
from sluicegate.hooks import hookimpl
from sluicegate.model import Decision, EffectivePolicies, ModeKind, Operation, OperationKind, TopicName
from sluicegate.policies.stopping import asking, limited

CONNECTION_RATE = "connection_rate_limit"
BURST_SECONDS = 1.0


class ConnectionPolicies(PolicyModel):
    """The limit on new attachments."""

    on_limit_actions: ClassVar[Mapping[str, tuple[OnLimit, ...]]] = {CONNECTION_RATE: ("delay",)}
    broker_only: ClassVar[frozenset[str]] = frozenset({CONNECTION_RATE})

    connection_rate_limit: MessageRate | None = None
    """Producers and consumers that can attach per second, over all topics of the broker; further ones wait. 0
    is unlimited."""


class ConnectionRate:
    """The policy of one broker, with the limiter that all its topics share."""

    def __init__(self) -> None:
        self._limiters: dict[ModeKind, _Limiter] = {}

    @hookimpl
    def sluicegate_policy_model(self) -> type[PolicyModel]:
        """Add the limit."""
        return ConnectionPolicies

    @hookimpl
    @only_with((CONNECTION_RATE,))
    def sluicegate_policy_checks(
        self, topic: TopicName, policies: EffectivePolicies, context: TopicState
    ) -> Sequence[Check]:
        """Limit the rate of connections and attachments."""
        limit = policies.number(CONNECTION_RATE)
        if limit == 0:
            return []
        kind = policies.mode(CONNECTION_RATE).kind
        limiter = self._limiters.get(kind)
        if limiter is None:
            make = context.buckets.bucket
            bucket = make(f"{CONNECTION_RATE}|{kind}", limit, 0, BURST_SECONDS, context.now_ns)
            limiter = self._limiters[kind] = _Limiter(bucket)
        limiter.bucket.reconfigure(limit, 0, BURST_SECONDS, context.now_ns)

        def check(op: Operation, now_ns: int) -> Decision | None:
            wait = limiter.admit(now_ns)
            if wait == 0:
                return None
            bucket = limiter.bucket
            if bucket.awaits_grant:
                return asking(CONNECTION_RATE, op, wait, policies.level(CONNECTION_RATE))
            current = bucket.message_capacity - bucket.balance(now_ns)[0] + 1
            text = texts.connection_rate(topic.full, current, limit)
            return limited(policies, CONNECTION_RATE, text, current, limit, wait)

        kinds = (OperationKind.CONNECT, OperationKind.ATTACH_PRODUCER, OperationKind.ATTACH_CONSUMER)
        return [Check(CONNECTION_RATE, kinds, check, Stage.RATE, takes=True)]


class _Limiter:
    """A bucket without a wait queue, so that a client that never returns cannot block a position.

    Waiting clients get different retry times, one slot after the other within a second. If all of them
    retried at once whenever one could pass, a storm of N clients would cost N * N attempts.
    """

    def __init__(self, bucket: DualBucket) -> None:
        self.bucket = bucket
        self._slot_ns = 0

    def admit(self, now_ns: int) -> int:
        """Charge one attachment and return 0, or return the time after which to retry, in ns."""
        wait = self.bucket.take(1, 0, now_ns)
        if wait == 0:
            return 0
        earliest_ns = now_ns + min(wait, LONGEST_WAIT_NS)
        slot_ns = self._slot_ns + int(1 / self.bucket.message_rate)
        if not earliest_ns <= slot_ns <= now_ns + LONGEST_WAIT_NS:
            slot_ns = earliest_ns
        self._slot_ns = slot_ns
        return slot_ns - now_ns
