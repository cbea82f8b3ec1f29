"""Backlogs of Kafka's topics: the lag of consumer groups in bytes, and the bytes that retention keeps.

Kafka has no backlog quota. The closest is retention by size: a group with a larger lag
loses records. So a topic's quota is `retention.bytes` of its partitions, or the one that is configured.
"""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sluicegate.broker import BrokerContext
from sluicegate.config.pressure_section import BacklogConfig
from sluicegate.engine.pressure import Backlog, PressureSource
from sluicegate.features.pressure.pacing import Paced
from sluicegate_kafka.cluster.login import login_options
from sluicegate_kafka.cluster.own_clients import own_client
from sluicegate_kafka.config import KafkaConfig

MOST_TOPICS = 1_000
"""Topics asked about in one reading, in the order in which the gateway first saw them."""
MOST_GROUPS = 1_000


@dataclass(frozen=True, slots=True)
class Log:
    """One partition at its leader."""

    begin: int
    end: int
    """Offset of the next record."""
    bytes: int

    def behind(self, offset: int) -> float:
        """About how many bytes lie from an offset to the end; -1 is the beginning."""
        records = self.end - min(max(offset, self.begin), self.end)
        held = self.end - self.begin
        return self.bytes * records / held if held else 0.0


def backlogs(
    logs: Mapping[tuple[str, int], Log],
    committed: Iterable[Mapping[tuple[str, int], int]],
    retention: Mapping[str, int],
    config: BacklogConfig,
) -> dict[str, Backlog]:
    """The lag of the slowest group of each topic.

    :param logs: the partitions of the topics in question.
    :param committed: offsets of each group.
    :param retention: bytes that each partition of a topic may have; 0 or less if there is no bound.
    :param config: quotas for topics without one.
    """
    topics: dict[str, list[Log]] = {}
    for (topic, _), own in logs.items():
        topics.setdefault(topic, []).append(own)
    most = dict.fromkeys(topics, 0.0)
    for offsets in committed:
        of_group: dict[str, float] = {}
        for partition, offset in offsets.items():
            if (log := logs.get(partition)) is not None:
                topic = partition[0]
                of_group[topic] = of_group.get(topic, 0.0) + log.behind(offset)
        for topic, nbytes in of_group.items():
            most[topic] = max(most[topic], nbytes)
    return {
        topic: Backlog(nbytes, _quota(topics[topic], retention.get(topic, -1), config))
        for topic, nbytes in most.items()
    }


def _quota(own: Sequence[Log], retention: int, config: BacklogConfig) -> float:
    """The quota of a topic with these partitions."""
    bound = retention * len(own)
    if bound > 0:
        return bound
    held = sum(log.end - log.begin for log in own)
    size = sum(log.bytes for log in own) / held if held else 0.0
    quotas = [quota for quota in (config.quota, config.quota_messages * size) if quota > 0]
    return min(quotas, default=0)


class KafkaBacklogs:
    """Asks for the backlogs of the topics that the gateway knows.

    :param config: of the cluster.
    :param context: its gateway.
    """

    def __init__(self, config: KafkaConfig, context: BrokerContext) -> None:
        self._config = config
        self._context = context

    async def read(self) -> Mapping[str, Backlog]:
        """Backlogs by topic.

        :raises PermissionError: if the broker would leave out groups that the gateway may not see.
        :raises aiokafka.errors.KafkaError: if the broker cannot be reached.
        """
        from sluicegate_kafka.cluster.admin import admin_client

        known = [name for name, _ in tuple(self._context.states.items())][:MOST_TOPICS]
        if not known:
            return {}
        options = login_options(self._config, self._context.tls_for)
        async with admin_client(options) as admin:
            committed = await admin.committed(MOST_GROUPS)
            partitions = await admin.partitions_of(known)
            sizes = await _sizes(admin, partitions)
            retention = await admin.retention_bytes({topic for topic, _ in partitions})
        logs = await _logs(options, partitions, sizes)
        # Groups times partitions may be millions, and other clients must not wait for them.
        return await asyncio.to_thread(
            backlogs, logs, committed.values(), retention, self._config.pressure.backlog
        )


async def _sizes(admin: Any, partitions: Collection[tuple[str, int]]) -> dict[tuple[str, int], int]:
    """Bytes of each partition: the largest of its replicas, which is at least the leader's size."""
    nodes = await admin.node_ids()
    sizes: dict[tuple[str, int], int] = {}
    for dirs in await asyncio.gather(*(admin.log_dirs(node, partitions) for node in nodes)):
        for each in dirs:
            for partition, size in each.sizes.items():
                sizes[partition] = max(size, sizes.get(partition, 0))
    return sizes


async def _logs(
    options: Mapping[str, Any],
    partitions: Collection[tuple[str, int]],
    sizes: Mapping[tuple[str, int], int],
) -> dict[tuple[str, int], Log]:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    wanted = [TopicPartition(topic, number) for topic, number in partitions if (topic, number) in sizes]
    if not wanted:
        return {}
    consumer = own_client(AIOKafkaConsumer, options, enable_auto_commit=False)
    try:
        await consumer.start()
        begins = await consumer.beginning_offsets(wanted)
        ends = await consumer.end_offsets(wanted)
    finally:
        await consumer.stop()
    return {
        (each.topic, each.partition): Log(begins[each], ends[each], sizes[each.topic, each.partition])
        for each in wanted
    }


def pressure_sources(context: BrokerContext) -> Sequence[PressureSource]:
    """Backlogs of a Kafka cluster."""
    config = context.config
    if not isinstance(config, KafkaConfig):
        return []
    paced = Paced(KafkaBacklogs(config, context).read, config.pressure.backlog.interval, context.now_ns)
    return [PressureSource("kafka_backlog", "backlog", paced.read)]
