"""aiokafka's producer with the policies in its process."""

import asyncio
from collections.abc import Iterable
from time import monotonic_ns
from typing import Any

import aiokafka
from aiokafka.producer.message_accumulator import BatchBuilder

from sluicegate.client.aio import finish, require_loop
from sluicegate.client.open_policies import OpenPolicies, Policies
from sluicegate.client.policed_client import PolicedClient
from sluicegate.client.refused import RefusedError
from sluicegate.client.sending import HeldMessage, Publisher
from sluicegate.model import ANONYMOUS, UNCHANGED, HeaderChange, OperationKind
from sluicegate_kafka.client.aio_errors import publish_error
from sluicegate_kafka.client.described import lengths_of, message_of
from sluicegate_kafka.client.signatures import with_policies

Header = tuple[str, bytes]


@with_policies(aiokafka.AIOKafkaProducer)
class AIOKafkaProducer(aiokafka.AIOKafkaProducer):  # type: ignore[misc]  # aiokafka has no types
    """aiokafka's producer; a message waits for its rate, or is refused, before it is batched.

    :param policies: an engine, the path of a policy file, or the URL of a gateway's admin endpoint.
    :param broker: the cluster's entry in that file; by default the first one.
    :raises ConfigErrors: if the file has errors.
    """

    def __init__(self, *, policies: Policies, broker: str | None = None, **options: Any) -> None:
        self._closed = True  # the original's destructor looks at it, even if this constructor fails
        self._open_policies = OpenPolicies(policies, "kafka", broker)
        self._key_to_bytes = options.pop("key_serializer", None)
        self._value_to_bytes = options.pop("value_serializer", None)
        with self._open_policies.closed_on_error():
            super().__init__(**options)
        user = options.get("sasl_plain_username")
        principal = f"User:{user}" if user else ANONYMOUS
        self._policed = PolicedClient(
            self._open_policies.engine,
            principal,
            self.client._client_id,  # noqa: SLF001 - has the number that the original gives
            self._request_timeout_ms * 1_000_000,
        )
        self._wants_answers = options.get("acks") != 0
        self._publishers: dict[str, Publisher] = {}

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Iterable[Header] | None = None,
    ) -> "asyncio.Future[Any]":
        """Publish a message; as the original, once the policies let it pass.

        :raises aiokafka.errors.KafkaError: if it is refused: 44 (policy violation), 10 (too large), or a
            time-out if it was held for `request_timeout_ms`.
        :raises RuntimeError: in another event loop than the producer's.
        :raises TypeError: if the headers are malformed.
        """
        # <hot> Runs for every message.
        require_loop(self._loop)
        key_bytes = key if key is None or self._key_to_bytes is None else self._key_to_bytes(key)
        value_bytes = value if value is None or self._value_to_bytes is None else self._value_to_bytes(value)
        nbytes = len(key_bytes or b"") + len(value_bytes or b"")
        if headers:
            headers = list(headers)
            nbytes += lengths_of(headers)
        try:
            publisher = self._publishers.get(topic) or await self._publisher(topic)
            change = publisher.send(nbytes, monotonic_ns(), ((headers, key_bytes, value_bytes),))
            if change is not UNCHANGED:
                change = await self._settled(change)
                if change is None:
                    return _dropped()
                if change is not UNCHANGED:
                    headers = list(change.apply(tuple(headers or ())))
        except RefusedError as refused:
            raise publish_error(refused) from refused
        return await super().send(topic, value_bytes, key_bytes, partition, timestamp_ms, headers)  # type: ignore[no-any-return]

    async def send_batch(self, batch: BatchBuilder, topic: str, *, partition: int) -> "asyncio.Future[Any]":
        """Publish a batch, as the original, once the policies let it pass; its size is that on the wire."""
        require_loop(self._loop)
        nbytes, messages = batch.size(), batch.record_count()
        try:
            publisher = self._publishers.get(topic) or await self._publisher(topic)
            if await self._settled(publisher.send(nbytes, monotonic_ns(), None, messages)) is None:
                return _dropped()
        except RefusedError as refused:
            raise publish_error(refused) from refused
        return await super().send_batch(batch, topic, partition=partition)  # type: ignore[no-any-return]

    def create_batch(self) -> BatchBuilder:
        """An empty batch, as the original's, with the serializers of this producer."""
        return self._message_accumulator.create_builder(
            key_serializer=self._key_to_bytes, value_serializer=self._value_to_bytes
        )

    async def stop(self) -> None:
        """Flush and close, as the original; the producer's places are free then."""
        try:
            await super().stop()
        finally:
            self._policed.end(monotonic_ns())
            self._open_policies.close()

    async def _settled(self, change: HeldMessage | HeaderChange | None) -> HeaderChange | None:
        """What changes in the headers of a message, once it may be sent; None if it is dropped."""
        if isinstance(change, HeldMessage):
            return await finish(self._policed.engine, change.waiting)
        return change

    async def _publisher(self, topic: str) -> Publisher:
        """Attach as a producer of a topic."""
        policed, kind = self._policed, OperationKind.ATTACH_PRODUCER
        await finish(policed.engine, lambda turn: policed.attaching(turn, kind, topic))
        publisher = Publisher(policed, topic, message_of, reliable=self._wants_answers)
        return self._publishers.setdefault(topic, publisher)


def _dropped() -> "asyncio.Future[Any]":
    """The answer to a message that was dropped: with acks=0 the original has none either."""
    answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    answer.set_result(None)
    return answer
