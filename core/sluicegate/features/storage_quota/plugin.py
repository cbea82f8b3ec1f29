"""Storage quotas as a plugin: the policy fields, and the sources for any kind of broker."""

from collections.abc import Sequence

from sluicegate.broker import BrokerContext
from sluicegate.config.models import PolicyModel
from sluicegate.config.storage import StorageConfig
from sluicegate.engine.factors import Factor
from sluicegate.engine.task import Task
from sluicegate.features.storage_quota.quota import StorageQuota
from sluicegate.features.storage_quota.quota_fields import POLICY, StoragePolicies, limits_of
from sluicegate.features.storage_quota.sources import reader
from sluicegate.hooks import hookimpl

__all__ = ["StoragePolicies", "StorageQuotas"]


class StorageQuotas:
    """The storage quotas of one gateway, by broker."""

    def __init__(self) -> None:
        self._quotas: dict[str, StorageQuota] = {}

    @hookimpl
    def sluicegate_policy_model(self) -> type[PolicyModel]:
        """Add the limits."""
        return StoragePolicies

    @hookimpl
    def sluicegate_quota_factors(self, context: BrokerContext) -> Sequence[Factor]:
        """Add the factor if the entry has a `storage:` section."""
        config: StorageConfig | None = context.config.storage
        if config is None:
            if limits_of(context.policies):
                context.log.warning(
                    "limits of %s have no effect on broker %s, which has no 'storage:' section",
                    POLICY,
                    context.broker,
                )
            return []
        read = reader(config, context.wall_ms, context.tls_for)
        # The broker's own room creates quotas that publish snapshots.
        if read is None or config.publish_snapshots is not None:
            return []
        self._quotas[context.broker] = quota = StorageQuota(context, read)
        return [quota.factor]

    @hookimpl
    def sluicegate_tasks(self, context: BrokerContext) -> Sequence[Task]:
        """Add the task that reads the usage."""
        quota = self._quotas.get(context.broker)
        return [] if quota is None else [quota.task]
