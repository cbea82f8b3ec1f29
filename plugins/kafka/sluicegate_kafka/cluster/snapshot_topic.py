"""The compacted topic by which brokers and gateways share the usage of their volumes.

The client library is loaded at its first use. A gateway without it has no snapshots, and logs that.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sluicegate.features.storage_quota.snapshot import (
    BrokerUsage,
    Snapshot,
    SnapshotError,
    read_snapshot,
    write_snapshot,
)
from sluicegate.features.storage_quota.usage_tracker import FUTURE_MS, MAX_BROKERS, MAX_VOLUMES
from sluicegate_kafka.cluster.own_clients import own_client

_POLL_MS = 500
_AT_ONCE = 100


class NoSuchTopicError(Exception):
    """The topic of snapshots does not exist."""


class SnapshotTopic:
    """Reads the topic from its beginning, and then the new records.

    A cancelled reading resumes: the next one returns what it had read.

    :param topic: its name.
    :param options: how to log in, as `login_options` makes them; asked for at each reading.
    :param wall_ms: the wall clock.
    :param refuse: takes reason and text of each record that is malformed or implausible.
    :param forget: takes the id of each broker whose record was deleted.
    """

    def __init__(
        self,
        topic: str,
        options: Callable[[], Mapping[str, Any]],
        wall_ms: Callable[[], int],
        refuse: Callable[[str, str], None],
        forget: Callable[[str], None],
    ) -> None:
        self._topic = topic
        self._options = options
        self._wall_ms = wall_ms
        self._refuse = refuse
        self._forget = forget
        self._positions: dict[int, int] = {}
        self._usages: dict[str, BrokerUsage] = {}
        self._volumes = 0
        """How many `_usages` holds."""

    async def read(self) -> Mapping[str, BrokerUsage]:
        """The snapshots since the last reading; of several of one broker the latest.

        :raises NoSuchTopicError: if the topic does not exist.
        :raises aiokafka.errors.KafkaError: if the broker cannot be reached.
        """
        from aiokafka import AIOKafkaConsumer

        from sluicegate_kafka.cluster.admin import admin_client

        options = self._options()
        async with admin_client(options) as admin:
            numbers = [number for _, number in await admin.partitions_of([self._topic])]
        if not numbers:
            raise NoSuchTopicError(
                f"there is no topic {self._topic!r}; a gateway with publish_snapshots creates it"
            )
        # Offsets are kept here and not in the broker, as each gateway has to see all snapshots.
        consumer = own_client(
            AIOKafkaConsumer, options, enable_auto_commit=False, auto_offset_reset="earliest"
        )
        try:
            await consumer.start()
            await self._read_on(consumer, numbers)
        finally:
            await consumer.stop()
        snapshot, self._usages, self._volumes = self._usages, {}, 0
        return snapshot

    async def _read_on(self, consumer: Any, numbers: Sequence[int]) -> None:
        from aiokafka import TopicPartition

        partitions = [TopicPartition(self._topic, number) for number in numbers]
        consumer.assign(partitions)
        ends = await consumer.end_offsets(partitions)
        begins = await consumer.beginning_offsets(partitions)
        for partition in partitions:
            at = self._positions.get(partition.partition, 0)
            # A topic that was deleted and recreated starts over.
            consumer.seek(partition, at if begins[partition] <= at <= ends[partition] else begins[partition])
        while any([await consumer.position(each) < ends[each] for each in partitions]):
            batches = await consumer.getmany(timeout_ms=_POLL_MS, max_records=_AT_ONCE)
            for partition, records in batches.items():
                for record in records:
                    self._take(record)
                    self._positions[partition.partition] = record.offset + 1
        for partition in partitions:
            self._positions[partition.partition] = await consumer.position(partition)

    def _take(self, record: Any) -> None:
        where = f"record {record.offset} of {self._topic}"
        try:
            key = record.key.decode() if record.key is not None else None
        except UnicodeDecodeError:
            self._refuse("malformed", f"{where}: its key is no text")
            return
        if record.value is None:
            if key is not None:
                self._drop(key)
                self._forget(key)
            return
        try:
            snapshot = read_snapshot(record.value, key)
        except SnapshotError as error:
            self._refuse("malformed", f"{where}: {error}")
            return
        self._keep(snapshot.broker_id, snapshot.usage, where)

    def _keep(self, broker: str, usage: BrokerUsage, where: str) -> None:
        if usage.at_ms > self._wall_ms() + FUTURE_MS:  # it would replace a true one
            self._refuse("future", f"{where}: broker {broker} dates it in the future")
            return
        last = self._usages.get(broker)
        if last is not None and usage.at_ms < last.at_ms:
            return
        self._drop(broker)
        if len(self._usages) >= MAX_BROKERS or self._volumes + len(usage.volumes) > MAX_VOLUMES:
            self._refuse("too_many", f"{where}: more brokers or volumes than are kept")
            return
        self._usages[broker] = usage
        self._volumes += len(usage.volumes)

    def _drop(self, broker: str) -> None:
        usage = self._usages.pop(broker, None)
        self._volumes -= len(usage.volumes) if usage is not None else 0


class SnapshotPublisher:
    """Writes snapshots, keyed by broker; creates the topic if it is missing.

    :param topic: its name.
    :param options: as for `SnapshotTopic`.
    """

    def __init__(self, topic: str, options: Callable[[], Mapping[str, Any]]) -> None:
        self._topic = topic
        self._options = options

    async def publish(self, snapshots: Sequence[Snapshot]) -> None:
        """Write a record for each broker; returns once all replicas in sync have them.

        :raises aiokafka.errors.KafkaError: if they cannot be written, or the topic cannot be created.
        """
        from aiokafka import AIOKafkaProducer

        from sluicegate_kafka.cluster.admin import admin_client

        options = self._options()
        async with admin_client(options) as admin:
            # Asked for each time: if it was deleted, the broker might recreate it without compaction.
            # And with an existing topic no right to create it is needed.
            if not await admin.partitions_of([self._topic]):
                await admin.make_compacted(self._topic)
        producer = own_client(AIOKafkaProducer, options, acks="all")
        try:
            await producer.start()
            sent = [
                await producer.send(
                    self._topic, key=snapshot.broker_id.encode(), value=write_snapshot(snapshot)
                )
                for snapshot in snapshots
            ]
            # `flush` would not raise their errors.
            for result in await asyncio.gather(*sent, return_exceptions=True):
                if isinstance(result, BaseException):
                    raise result
        finally:
            await producer.stop()
