"""The built-in policies: plugins that use the same hooks as third-party plugins."""

from sluicegate.builtin import counts, delay, rates, size, unacked
from sluicegate.builtin.connections import ConnectionRate
from sluicegate.builtin.quotas import PrincipalQuotas
from sluicegate.features.adaptive.plugin import AdaptiveThrottling
from sluicegate.features.storage_quota.plugin import StorageQuotas

__all__ = ["builtin_plugins"]


def builtin_plugins() -> list[object]:
    """Create the plugins of one gateway, in registration order; some have state, so they are not shared."""
    stateful = [ConnectionRate(), StorageQuotas(), AdaptiveThrottling()]
    return [size, counts, PrincipalQuotas(), rates, unacked, delay, *stateful]
