"""The compacted topic over which brokers and gates tell each other how full their volumes are.

The client library is loaded when it is first used: a gate without it knows nothing, and says so.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sluicegate.storage_quota.board import latest
from sluicegate.storage_quota.snapshot import (
    BrokerUsage,
    Snapshot,
    SnapshotError,
    read_snapshot,
    write_snapshot,
)

_POLL_MS = 500
_AT_ONCE = 500


class NoSuchTopicError(Exception):
    """The topic of snapshots is not there."""


class SnapshotTopic:
    """Reads the topic from its beginning, and from then on what is new.

    :param topic: its name.
    :param options: how to log in, as `login_options` makes them; asked for at each reading.
    :param refuse: takes reason and text of each record that is no snapshot.
    :param forget: takes the id of each broker whose record was deleted.
    """

    def __init__(
        self,
        topic: str,
        options: Callable[[], Mapping[str, Any]],
        refuse: Callable[[str, str], None],
        forget: Callable[[str], None],
    ) -> None:
        self._topic = topic
        self._options = options
        self._refuse = refuse
        self._forget = forget
        self._positions: dict[int, int] = {}

    async def read(self) -> Mapping[str, BrokerUsage]:
        """What was told since the last reading; of several snapshots of a broker the latest.

        :raises NoSuchTopicError: if the topic is not there.
        :raises aiokafka.errors.KafkaError: if the broker cannot be asked.
        """
        from aiokafka import AIOKafkaConsumer

        from sluicegate_kafka.admin import admin_client

        options = self._options()
        async with admin_client(options) as admin:
            numbers = [number for _, number in await admin.partitions_of([self._topic])]
        if not numbers:
            raise NoSuchTopicError(
                f"there is no topic {self._topic!r}; a gate with publish_snapshots makes it"
            )
        # Offsets are kept here and not in the broker, as each gate has to see all snapshots.
        consumer = AIOKafkaConsumer(**options, enable_auto_commit=False, auto_offset_reset="earliest")
        found: list[tuple[str, BrokerUsage]] = []
        try:
            await consumer.start()
            for record in await self._new_records(consumer, numbers):
                self._take(record, found)
        finally:
            await consumer.stop()
        return latest(found)

    async def _new_records(self, consumer: Any, numbers: Sequence[int]) -> list[Any]:
        from aiokafka import TopicPartition

        partitions = [TopicPartition(self._topic, number) for number in numbers]
        consumer.assign(partitions)
        ends = await consumer.end_offsets(partitions)
        begins = await consumer.beginning_offsets(partitions)
        for partition in partitions:
            at = self._positions.get(partition.partition, 0)
            # A topic that was deleted and made anew begins anew.
            consumer.seek(partition, at if begins[partition] <= at <= ends[partition] else begins[partition])
        records = []
        while any([await consumer.position(each) < ends[each] for each in partitions]):
            for batch in (await consumer.getmany(timeout_ms=_POLL_MS, max_records=_AT_ONCE)).values():
                records += batch
        for partition in partitions:
            self._positions[partition.partition] = await consumer.position(partition)
        return records

    def _take(self, record: Any, found: list[tuple[str, BrokerUsage]]) -> None:
        try:
            key = record.key.decode() if record.key is not None else None
        except UnicodeDecodeError:
            self._refuse("malformed", f"record {record.offset} of {self._topic}: its key is no text")
            return
        if record.value is None:
            if key is not None:
                self._forget(key)
            return
        try:
            snapshot = read_snapshot(record.value, key)
        except SnapshotError as error:
            self._refuse("malformed", f"record {record.offset} of {self._topic}: {error}")
            return
        found.append((snapshot.broker_id, snapshot.usage))


class SnapshotPublisher:
    """Writes snapshots, keyed by broker; makes the topic if it is not there.

    :param topic: its name.
    :param options: as for `SnapshotTopic`.
    """

    def __init__(self, topic: str, options: Callable[[], Mapping[str, Any]]) -> None:
        self._topic = topic
        self._options = options
        self._is_made = False

    async def publish(self, snapshots: Sequence[Snapshot]) -> None:
        """Write a record for each broker; returns once all replicas in sync have them.

        :raises aiokafka.errors.KafkaError: if they cannot be written, or the topic cannot be made.
        """
        from aiokafka import AIOKafkaProducer

        from sluicegate_kafka.admin import admin_client

        options = self._options()
        if not self._is_made:
            async with admin_client(options) as admin:
                await admin.make_compacted(self._topic)
            self._is_made = True
        producer = AIOKafkaProducer(**options, acks="all")
        try:
            await producer.start()
            for snapshot in snapshots:
                await producer.send(
                    self._topic, key=snapshot.broker_id.encode(), value=write_snapshot(snapshot)
                )
            await producer.flush()
        except BaseException:
            self._is_made = False
            raise
        finally:
            await producer.stop()
