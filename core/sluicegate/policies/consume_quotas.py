"""Consume quotas over all topics of a gateway: of all principals together, and of each principal."""

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from sluicegate.config import ByteRate, MessageRate, PolicyModel
from sluicegate.config.asking import only_with
from sluicegate.config.models import OnLimit
from sluicegate.engine.check import Check
from sluicegate.engine.quota import Quota
from sluicegate.engine.state import TopicState
from sluicegate.hooks import hookimpl
from sluicegate.model import EffectivePolicies, Operation, OperationKind, TopicName
from sluicegate.policies.quota_limit import QuotaLimit, all_principals, its_principal
from sluicegate.policies.quotas import burst_seconds, share_name
from sluicegate.policies.shares import MOST, Share, Shares

TOGETHER = ("consume_quota", "consume_quota_bytes")
EACH = ("principal_consume_quota", "principal_consume_quota_bytes")
_ALL = (*TOGETHER, *EACH)
_DISPATCH = OperationKind.DISPATCH


class ConsumeQuotaPolicies(PolicyModel):
    """Limits on consuming over all topics of a broker."""

    on_limit_actions: ClassVar[Mapping[str, tuple[OnLimit, ...]]] = dict.fromkeys(_ALL, ("delay",))
    broker_only: ClassVar[frozenset[str]] = frozenset(_ALL)
    whole_topic: ClassVar[frozenset[str]] = frozenset(_ALL)

    consume_quota: MessageRate | None = None
    """Messages per second that all principals together can consume from this broker through this gateway; 0
    is unlimited. Exempt principals neither count nor wait."""
    consume_quota_bytes: ByteRate | None = None
    """Bytes per second that all principals together can consume from this broker through this gateway; 0 is
    unlimited."""
    principal_consume_quota: MessageRate | None = None
    """Messages per second that each principal can consume over all topics; 0 is unlimited."""
    principal_consume_quota_bytes: ByteRate | None = None
    """Bytes per second that each principal can consume over all topics; 0 is unlimited."""


class ConsumeQuotas:
    """The policies of one broker, with the buckets that all its topics share."""

    def __init__(self) -> None:
        self._shares = Shares("consume")

    @hookimpl
    def sluicegate_policy_model(self) -> type[PolicyModel]:
        """Add the quotas."""
        return ConsumeQuotaPolicies

    @hookimpl
    @only_with(_ALL)
    def sluicegate_policy_checks(
        self, topic: TopicName, policies: EffectivePolicies, context: TopicState
    ) -> Sequence[Check]:
        """Check deliveries against the quotas."""
        self._shares.buckets = context.buckets
        burst = burst_seconds(policies, context.context)
        checks: list[Check] = []
        if together := _quota(policies, TOGETHER):
            share = self._shares.get("of all", together, burst, context.now_ns)
            limit = QuotaLimit(TOGETHER, policies, lambda op, now_ns: share, all_principals, kind=_DISPATCH)
            checks += limit.checks()
        if each := _quota(policies, EACH):
            share_of = self._share_of_each(each, burst)
            checks += QuotaLimit(EACH, policies, share_of, its_principal, kind=_DISPATCH).checks()
        return checks

    def _share_of_each(self, each: Quota, burst: float) -> Callable[[Operation, int], Share]:
        known: dict[str, Share] = {}

        def share_of(op: Operation, now_ns: int) -> Share:
            share = known.get(op.principal)
            if share is None:
                if len(known) >= MOST:
                    known.clear()
                share = self._shares.get(share_name(op.principal), each, burst, now_ns)
                known[op.principal] = share
            return share

        return share_of


def _quota(policies: EffectivePolicies, names: tuple[str, str]) -> Quota | None:
    messages, nbytes = map(policies.number, names)
    return Quota(messages, nbytes) if messages or nbytes else None
