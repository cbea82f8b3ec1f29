"""Checks for quota factors: each factor reduces every publish rate and quota; 0 pauses publishing.

A factor's switch disables its checks, so that they cost nothing while the factor is 1.
"""

from collections.abc import Sequence

from sluicegate.engine.check import Check, Stage
from sluicegate.engine.factors import Factor
from sluicegate.engine.state import TopicState
from sluicegate.engine.throttle import ThrottledLimit, paused, reduced
from sluicegate.engine.topic_context import TopicContext
from sluicegate.model import Action, Decision, EffectivePolicies, Operation, OperationKind
from sluicegate.policies.quota_limit import QuotaLimit
from sluicegate.policies.rate import Rate, publish_rates

_LIMITS = "sluicegate: what factors leave of rates"
"""Key in a topic's plugin data."""


def factor_checks(
    policies: EffectivePolicies, state: TopicState, broker: TopicContext, quotas: Sequence[QuotaLimit]
) -> list[Check]:
    """Create the checks for all factors of a broker on one topic.

    :param policies: the topic's policies.
    :param state: the topic's state.
    :param broker: the topic's broker, which has the factors.
    :param quotas: the quotas that apply to the topic. Factors reduce only quotas and rates that
        apply to everybody.
    """
    rates = [rate for rate in publish_rates(policies) if rate.mode.enforces]
    refusing = getattr(broker.config, "refuses_paused_producers", False)
    checks = []
    for factor in broker.factors:
        part = _FactorPart(factor, policies, state, rates, quotas)
        name, switch = factor.name, factor.switch
        publish, attach = (OperationKind.PUBLISH,), (OperationKind.ATTACH_PRODUCER,)
        checks.append(Check(name, publish, part.check, Stage.RATE, switch=switch))
        checks.append(Check(name, publish, part.charge, Stage.ACCOUNT, switch=switch))
        if refusing:
            checks.append(Check(name, attach, part.check_producer, Stage.RATE, switch=switch))
    return checks


class _FactorPart:
    """One factor on one topic: it checks first, and charges once all checks have allowed the operation."""

    __slots__ = ("_factor", "_is_for_all", "_limits", "_mode", "_quotas", "_rates", "_state")

    def __init__(
        self,
        factor: Factor,
        policies: EffectivePolicies,
        state: TopicState,
        rates: Sequence[Rate],
        quotas: Sequence[QuotaLimit],
    ) -> None:
        self._factor = factor
        self._mode = policies.mode(factor.name)
        self._is_for_all = self._mode.enforces
        self._state = state
        self._rates = rates
        self._quotas = quotas
        self._limits: Sequence[ThrottledLimit] | None = None
        """The reduced rates of the topic; created when the factor first restricts them."""

    def check(self, op: Operation, now_ns: int) -> Decision | None:
        if self._factor.value <= 0:
            return paused(self._factor, op.topic)
        for limit in self._of_rates(now_ns) if self._limits is None else self._limits:
            if wait := limit.ready(op, now_ns) if self._applies_to(op) else limit.wait_outside(op, now_ns):
                return reduced(limit, op, f"topic {op.topic}", wait, now_ns)
        for quota in self._quotas:
            share = self._of_quota(quota, op, now_ns)
            if share is None:
                continue
            if wait := share.ready(op, now_ns) if self._applies_to(op) else share.wait_outside(op, now_ns):
                return reduced(share, op, f"{quota.owner_of(op)} on topic {op.topic}", wait, now_ns)
        return None

    def charge(self, op: Operation, now_ns: int) -> None:
        if self._factor.value <= 0:
            return  # the factor does not apply to all, or the check would have refused the operation
        for limit in self._of_rates(now_ns) if self._limits is None else self._limits:
            self._charge(limit, op, now_ns)
        for quota in self._quotas:
            share = self._of_quota(quota, op, now_ns)
            if share is not None:
                self._charge(share, op, now_ns)

    def check_producer(self, op: Operation, now_ns: int) -> Decision | None:
        if self._factor.value <= 0:
            return paused(self._factor, op.topic, Action.REJECT)
        return None

    def _charge(self, limit: ThrottledLimit, op: Operation, now_ns: int) -> None:
        if self._applies_to(op):
            limit.charge(op, now_ns)
        else:
            limit.follow(now_ns)
            limit.queue.take_outside(op, now_ns)

    def _applies_to(self, op: Operation) -> bool:
        return self._is_for_all or self._mode.applies_to(self._factor.name, op)

    def _of_quota(self, quota: QuotaLimit, op: Operation, now_ns: int) -> ThrottledLimit | None:
        share = quota.share_of(op, now_ns)
        return share.reduced(self._factor, self._mode.kind) if share is not None else None

    def _of_rates(self, now_ns: int) -> Sequence[ThrottledLimit]:
        self._limits = [self._of_rate(rate, now_ns) for rate in self._rates]
        return self._limits

    def _of_rate(self, rate: Rate, now_ns: int) -> ThrottledLimit:
        state = self._state
        kept = state.plugin_data.setdefault(_LIMITS, {})
        assert isinstance(kept, dict)  # noqa: S101 - only this module writes this key
        key = self._mode.own(f"{self._factor.name} of {rate.key}")
        limit: ThrottledLimit | None = kept.get(key)
        base = state.limiters.get(rate.key) or rate.queue(state, now_ns)
        if limit is None or limit.factor is not self._factor:
            # A limiter of the topic's state: the state is not evicted while an operation waits there.
            queue = state.limiter(key, rate.messages_per_s, rate.bytes_per_s, rate.burst_seconds, now_ns)
            limit = kept[key] = ThrottledLimit(self._factor, base.bucket, queue)
        return limit
