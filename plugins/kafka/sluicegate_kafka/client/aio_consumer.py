"""aiokafka's consumer with the policies in its process."""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from time import monotonic_ns
from typing import Any

import aiokafka
from aiokafka import ConsumerRecord, TopicPartition
from aiokafka.errors import IllegalStateError

from sluicegate.client.aio import finish, require_loop
from sluicegate.client.open_policies import OpenPolicies, Policies
from sluicegate.client.policed_client import PolicedClient
from sluicegate.client.receiving import Receiver
from sluicegate.client.refused import RefusedError
from sluicegate.model import ANONYMOUS, OperationKind
from sluicegate_kafka.client.aio_errors import consume_error
from sluicegate_kafka.client.signatures import with_policies


@with_policies(aiokafka.AIOKafkaConsumer)
class AIOKafkaConsumer(aiokafka.AIOKafkaConsumer):  # type: ignore[misc]  # aiokafka has no types
    """aiokafka's consumer; a record that has to wait stays at the broker.

    Its partition is paused and its position goes back to it, so that nothing is committed which the
    application did not get. Other partitions go on, and the member stays in its group.

    :param policies: an engine, the path of a policy file, or the URL of a gateway's admin endpoint.
    :param broker: the cluster's entry in that file; by default the first one.
    :raises ConfigErrors: if the file has errors.
    """

    def __init__(self, *topics: str, policies: Policies, broker: str | None = None, **options: Any) -> None:
        self._closed = True  # the original's destructor looks at it, even if this constructor fails
        self._open_policies = OpenPolicies(policies, "kafka", broker)
        with self._open_policies.closed_on_error():
            super().__init__(*topics, **options)
        user = options.get("sasl_plain_username")
        self._policed = PolicedClient(
            self._open_policies.engine,
            f"User:{user}" if user else ANONYMOUS,
            options.get("client_id") or self._client._client_id,  # noqa: SLF001
            options.get("request_timeout_ms", 40_000) * 1_000_000,
        )
        self._receivers: dict[str, Receiver] = {}
        self._withheld: dict[TopicPartition, asyncio.TimerHandle] = {}
        """Partitions that are paused until their next record may pass."""

    # -- life -----------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Connect and join the group, as the original, once there is a place on each topic.

        :raises aiokafka.errors.GroupAuthorizationFailedError: if there is none.
        """
        await self._attach(self.subscription())
        try:
            await super().start()
        except BaseException:
            self._release()
            raise

    async def stop(self) -> None:
        """Commit and close, as the original; the consumer's places are free then."""
        try:
            await super().stop()
        finally:
            self._release()

    def _release(self) -> None:
        for timer in self._withheld.values():
            timer.cancel()
        self._withheld.clear()
        self._policed.end(monotonic_ns())
        self._open_policies.close()

    # -- records --------------------------------------------------------------------------------------

    async def getone(self, *partitions: TopicPartition) -> ConsumerRecord:
        """The next record, as the original's, that may pass now.

        :raises RuntimeError: in another event loop than the consumer's.
        """
        require_loop(self._loop)
        while True:
            record = await super().getone(*partitions)
            receiver = self._receivers.get(record.topic) or await self._receiver(record.topic)
            wait_ns = receiver.wait_ns(_size(record), record.timestamp, monotonic_ns())
            if not wait_ns:
                return record
            self._withhold(TopicPartition(record.topic, record.partition), record.offset, wait_ns)

    async def getmany(
        self, *partitions: TopicPartition, timeout_ms: int = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Records, as the original's, as far as they may pass now.

        :raises RuntimeError: in another event loop than the consumer's.
        """
        require_loop(self._loop)
        end_ns = monotonic_ns() + timeout_ms * 1_000_000
        while True:
            left_ms = max(0, (end_ns - monotonic_ns()) // 1_000_000)
            records = await super().getmany(*partitions, timeout_ms=left_ms, max_records=max_records)
            passed = {}
            for partition, of_it in records.items():
                if may_pass := await self._prefix(partition, of_it):
                    passed[partition] = may_pass
            if passed or not records or monotonic_ns() >= end_ns:
                return passed

    async def _prefix(self, partition: TopicPartition, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        """The first records of a partition, up to the first one that has to wait."""
        receiver = self._receivers.get(partition.topic) or await self._receiver(partition.topic)
        for place, record in enumerate(records):
            wait_ns = receiver.wait_ns(_size(record), record.timestamp, monotonic_ns())
            if wait_ns:
                self._withhold(partition, record.offset, wait_ns)
                return records[:place]
        return records

    # -- withholding ----------------------------------------------------------------------------------

    def _withhold(self, partition: TopicPartition, offset: int, wait_ns: int) -> None:
        """Go back to a record, and fetch it again once it may pass."""
        if partition not in self.assignment():
            return  # revoked meanwhile: its next owner fetches it
        self.seek(partition, offset)
        if partition in super().paused():
            return  # by the application, which resumes it
        super().pause(partition)
        loop = asyncio.get_running_loop()
        self._withheld[partition] = loop.call_later(wait_ns / 1e9, self._fetch_again, partition)

    def _fetch_again(self, partition: TopicPartition) -> None:
        del self._withheld[partition]
        with suppress(IllegalStateError):  # not assigned to this member any more
            super().resume(partition)

    def pause(self, *partitions: TopicPartition) -> None:
        """Suspend fetching, as the original; a partition that the policies hold is then the application's."""
        for partition in partitions:
            if timer := self._withheld.pop(partition, None):
                timer.cancel()
        super().pause(*partitions)

    def paused(self) -> set[TopicPartition]:
        """Partitions that the application has paused."""
        return set(super().paused()) - self._withheld.keys()

    def resume(self, *partitions: TopicPartition) -> None:
        """Resume fetching, as the original, but for partitions that the policies hold."""
        super().resume(*(each for each in partitions if each not in self._withheld))

    # -- attaching ------------------------------------------------------------------------------------

    async def _attach(self, topics: Iterable[str]) -> None:
        for topic in topics:
            await self._receiver(topic)

    async def _receiver(self, topic: str) -> Receiver:
        """Attach as a consumer of a topic."""
        receiver = self._receivers.get(topic)
        if receiver is None:
            policed, group = self._policed, self._group_id or ""
            try:
                await finish(
                    policed.engine,
                    lambda turn: policed.attaching(turn, OperationKind.ATTACH_CONSUMER, topic, group),
                )
            except RefusedError as refused:
                raise consume_error(refused) from refused
            receiver = self._receivers.setdefault(topic, Receiver(policed, topic, group))
        return receiver


def _size(record: ConsumerRecord) -> int:
    """Bytes of a record's payload, as its producer's wrapper counts them."""
    nbytes: int = max(0, record.serialized_key_size) + max(0, record.serialized_value_size)
    return nbytes + sum(len(name) + len(content or b"") for name, content in record.headers)
