"""The product's own policies: plugins through the same hooks as anyone's."""

from sluicegate.builtin import counts, delay, rates, size, unacked
from sluicegate.builtin.connections import ConnectionRate
from sluicegate.builtin.quotas import PrincipalQuotas
from sluicegate.features.adaptive.plugin import AdaptiveThrottling
from sluicegate.features.storage_quota.plugin import StorageQuotas

__all__ = ["builtin_plugins"]


def builtin_plugins() -> list[object]:
    """The plugins of one gateway, in the order to register them; some hold state, so they are not shared."""
    stateful = [ConnectionRate(), StorageQuotas(), AdaptiveThrottling()]
    return [size, counts, PrincipalQuotas(), rates, unacked, delay, *stateful]
