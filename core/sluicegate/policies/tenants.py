"""Quotas of tenants: one budget for all topics of some namespaces, and for some principals anywhere."""

from collections.abc import Sequence

from sluicegate.config.name_list import name_matcher
from sluicegate.config.tenants import TenantQuota
from sluicegate.engine.check import Check
from sluicegate.engine.quota import Quota
from sluicegate.engine.state import TopicState
from sluicegate.hooks import hookimpl
from sluicegate.model import EffectivePolicies, Operation, OperationKind, TopicName
from sluicegate.policies.quota_limit import QuotaLimit
from sluicegate.policies.quotas import burst_seconds
from sluicegate.policies.shares import Share, Shares

_NAMES = ("tenant_quota", "tenant_quota")


class TenantQuotas:
    """The tenants of one broker, with the buckets that all its topics share."""

    def __init__(self) -> None:
        self._shares = Shares("tenant")

    @hookimpl
    def sluicegate_policy_checks(
        self, topic: TopicName, policies: EffectivePolicies, context: TopicState
    ) -> Sequence[Check]:
        """Check messages against the quotas of the tenants that they belong to."""
        self._shares.buckets = context.buckets
        broker = context.context
        tenants: Sequence[TenantQuota] = () if broker is None else getattr(broker.config, "tenant_quotas", ())
        burst = burst_seconds(policies, broker)
        checks: list[Check] = []
        for tenant in tenants:
            for kind, quota in (
                (OperationKind.PUBLISH, Quota(tenant.publish_messages, tenant.publish_bytes)),
                (OperationKind.DISPATCH, Quota(tenant.consume_messages, tenant.consume_bytes)),
            ):
                if quota.messages_per_s or quota.bytes_per_s:
                    share = self._shares.get(f"{kind.name} {tenant.name}", quota, burst, context.now_ns)
                    checks += _limit(kind, tenant, topic, policies, share).checks()
        return checks


def _limit(
    kind: OperationKind, tenant: TenantQuota, topic: TopicName, policies: EffectivePolicies, share: Share
) -> QuotaLimit:
    """A tenant's limit on one topic: for everybody if its namespace is the tenant's, else its principals."""
    is_its_principal = name_matcher(tenant.principals)
    is_its_topic = name_matcher(tenant.namespaces)(topic.namespace)

    def share_of(op: Operation, now_ns: int) -> Share | None:
        return share if is_its_topic or is_its_principal(op.principal) else None

    return QuotaLimit(_NAMES, policies, share_of, lambda op: f"tenant {tenant.name}", kind=kind)
