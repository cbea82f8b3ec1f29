"""Storage quotas of a Kafka cluster: volumes that its brokers report, and snapshots over a topic."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from sluicegate.broker import BrokerContext
from sluicegate.config.storage import StorageConfig
from sluicegate.engine.factors import Factor
from sluicegate.engine.task import Task
from sluicegate.features.storage_quota.quota import Publish, Read, StorageQuota
from sluicegate.features.storage_quota.snapshot import BrokerUsage
from sluicegate.features.storage_quota.sources import reader
from sluicegate.features.storage_quota.volumes import Volume
from sluicegate_kafka.cluster.login import login_options
from sluicegate_kafka.cluster.snapshot_topic import SnapshotPublisher, SnapshotTopic
from sluicegate_kafka.config import KafkaConfig


class ClusterVolumes:
    """Asks all brokers of a cluster for their log directories, each of which is a volume.

    :param config: the cluster.
    :param context: its gateway.
    """

    def __init__(self, config: KafkaConfig, context: BrokerContext) -> None:
        self._config = config
        self._context = context
        self._logged: dict[int, str] = {}
        storage = config.storage
        # One node that hangs does not use up the time for all of them.
        self._patience_s = min(storage.timeout, max(storage.interval, 1_000) * 0.8) / 1000 if storage else 0.0

    async def read(self) -> Mapping[str, BrokerUsage]:
        """Usage by broker; those that do not answer, or have a directory offline, are left out.

        :raises Exception: if no broker answers, whatever the first one's failure raised.
        """
        from sluicegate_kafka.cluster.admin import Admin, admin_client

        async def ask(admin: Admin, node: int) -> BrokerUsage:
            try:
                async with asyncio.timeout(self._patience_s):
                    dirs = await admin.log_dirs(node)
            except TimeoutError:
                raise TimeoutError(f"no answer within {self._patience_s:g} s") from None
            volumes = tuple(
                Volume(each.path, each.total_bytes, each.total_bytes - each.usable_bytes) for each in dirs
            )
            return BrokerUsage(volumes, self._context.wall_ms())

        async with admin_client(self.options()) as admin:
            nodes = await admin.node_ids()
            self._logged = {node: text for node, text in self._logged.items() if node in nodes}
            answers = await asyncio.gather(*(ask(admin, node) for node in nodes), return_exceptions=True)
        usages: dict[str, BrokerUsage] = {}
        failures = []
        for node, answer in zip(nodes, answers, strict=True):
            if isinstance(answer, BaseException):
                failures.append(answer)
                self._tell(node, answer)
            else:
                self._logged.pop(node, None)
                usages[str(node)] = answer
        if failures and not usages:
            raise failures[0]
        return usages

    async def active(self) -> Collection[str]:
        """Ids of the brokers that are up."""
        from sluicegate_kafka.cluster.admin import admin_client

        async with admin_client(self.options()) as admin:
            return [str(node) for node in await admin.node_ids()]

    def options(self) -> dict[str, Any]:
        """How to log in."""
        return login_options(self._config, self._context.tls_for)

    def _tell(self, node: int, error: BaseException) -> None:
        text = f"{type(error).__name__}: {error}"
        if self._logged.get(node) == text:
            return
        self._logged[node] = text
        remedy = ""
        if type(error).__name__ == "ClusterAuthorizationFailedError":
            remedy = "; the gateway's own login needs the operation Describe on the cluster"
        self._context.log.warning("cannot read the log directories of broker %d: %s%s", node, text, remedy)


_quotas: WeakKeyDictionary[BrokerContext, StorageQuota] = WeakKeyDictionary()
"""What was made for each gateway, from the hook that asks for factors to the one that asks for tasks."""


def factors(context: BrokerContext) -> Sequence[Factor]:
    """The factor, if the entry configures a source or target in Kafka."""
    entry = context.config
    config: StorageConfig | None = entry.storage
    if not isinstance(entry, KafkaConfig) or config is None:
        return []
    by_itself = reader(config, context.wall_ms, context.tls_for)
    if by_itself is not None and config.publish_snapshots is None:
        return []
    _quotas[context] = quota = _make(entry, config, context, by_itself)
    return [quota.factor]


def tasks(context: BrokerContext) -> Sequence[Task]:
    """The reading that belongs to `factors`."""
    quota = _quotas.pop(context, None)  # it holds the context, which would otherwise never be freed
    return [] if quota is None else [quota.task]


def _make(
    entry: KafkaConfig, config: StorageConfig, context: BrokerContext, by_itself: Read | None
) -> StorageQuota:
    cluster = ClusterVolumes(entry, context)
    publish = _publisher(config, cluster)
    if by_itself is not None:
        return StorageQuota(context, by_itself, publish=publish)
    if config.source == "log_dirs":
        return StorageQuota(context, cluster.read, cluster.active, publish=publish)

    async def read() -> Mapping[str, BrokerUsage]:
        return await topic.read()

    # Snapshots bring their own limits, so missing data matters even without limits of the gateway's
    # own.
    quota = StorageQuota(context, read, cluster.active, is_on=True)
    topic = SnapshotTopic(
        config.topic or "", cluster.options, context.wall_ms, quota.refuse, quota.tracker.forget
    )
    return quota


def _publisher(config: StorageConfig, cluster: ClusterVolumes) -> Publish | None:
    if config.publish_snapshots is None:
        return None
    return SnapshotPublisher(config.publish_snapshots, cluster.options).publish
