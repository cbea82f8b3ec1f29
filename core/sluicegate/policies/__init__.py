"""The built-in policies: plugins that use the same hooks as third-party plugins."""

from sluicegate.features.adaptive.plugin import AdaptiveThrottling
from sluicegate.features.storage_quota.plugin import StorageQuotas
from sluicegate.policies import access, content, counts, creation, delay, headers, rates, size, unacked
from sluicegate.policies.connections import ConnectionRate
from sluicegate.policies.consume_quotas import ConsumeQuotas
from sluicegate.policies.quotas import PrincipalQuotas
from sluicegate.policies.tenants import TenantQuotas

__all__ = ["builtin_plugins"]


def builtin_plugins() -> list[object]:
    """Create the plugins of one gateway, in registration order; some have state, so they are not shared."""
    stateful = [ConnectionRate(), StorageQuotas(), AdaptiveThrottling()]
    quotas = [PrincipalQuotas(), ConsumeQuotas(), TenantQuotas()]
    return [size, access, headers, content, counts, creation, *quotas, rates, unacked, delay, *stateful]
