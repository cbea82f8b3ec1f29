"""aiokafka's classes at a door, or wrappers of them."""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import (
    GroupAuthorizationFailedError,
    MessageSizeTooLargeError,
    PolicyViolationError,
    for_code,
)
from tests.conformance.kafka_messages import PARTITION, decoded, encoded, group
from tests.conformance.policing import Policed
from tests.waiting import AIOKAFKA_SESSION_MS

from sluicegate.testing.conformance.door import Received, RefusedByDoor, Sample


class AiokafkaDoor(Policed):
    """A door that aiokafka goes through.

    :param policed: what decides.
    :param producer: the class of its producers.
    :param consumer: the class of its consumers.
    :param options: arguments of both.
    """

    def __init__(
        self, policed: Policed, producer: type[Any], consumer: type[Any], options: Mapping[str, Any]
    ) -> None:
        super().__init__(policed.file, policed.sink, policed.gates, policed.tells_reasons)
        self._producer, self._consumer, self._options = producer, consumer, options

    async def producer(self, topic: str, name: str, principal: str) -> "_Producer":
        """A producer, which is made when it publishes first: nobody knows of it before."""
        return _Producer(lambda **more: self._producer(client_id=name, **more, **self._options), topic)

    async def consumer(self, topic: str, subscription: str, name: str, principal: str) -> "_Consumer":
        """The member of a group, which it has joined."""
        of_member = {
            "group_id": group(topic, subscription),
            "auto_offset_reset": "earliest",
            "session_timeout_ms": AIOKAFKA_SESSION_MS,
        }
        made = self._consumer(topic, client_id=name, **of_member, **self._options)
        try:
            await made.start()
        except GroupAuthorizationFailedError as error:
            await made.stop()
            raise RefusedByDoor(str(error)) from None
        return _Consumer(made)

    async def create_topic(self, topic: str, partitions: int, name: str, principal: str) -> None:
        """Create a topic."""
        admin = AIOKafkaAdminClient(client_id=name, **self._options)
        await admin.start()
        try:
            created = await admin.create_topics([NewTopic(topic, partitions, 1)])
        finally:
            await admin.close()
        for _, code, text in created.topic_errors:
            if code == PolicyViolationError.errno:
                raise RefusedByDoor(text)
            if code:
                raise for_code(code)(text)


class _Producer:
    def __init__(self, make: Callable[..., Any], topic: str) -> None:
        self._make, self._topic = make, topic
        self._made: Any = None

    async def publish(self, message: Sample) -> None:
        if self._made is None:
            self._made = self._make(compression_type="gzip" if message.compressed else None)
            await self._made.start()
        headers = list(message.headers.items())
        value = encoded(message)
        try:
            await self._made.send_and_wait(self._topic, value, message.key, PARTITION, headers=headers)
        except (PolicyViolationError, MessageSizeTooLargeError) as error:
            raise RefusedByDoor(str(error)) from None

    async def close(self) -> None:
        if self._made is not None:
            await self._made.stop()


class _Consumer:
    def __init__(self, made: Any) -> None:
        self._made = made
        self._come: deque[Received] = deque()

    async def receive(self, within_s: float) -> Received | None:
        if not self._come:
            batches = await self._made.getmany(timeout_ms=round(within_s * 1000))
            for records in batches.values():
                self._come += [Received(decoded(each.value), dict(each.headers)) for each in records]
        return self._come.popleft() if self._come else None

    async def acknowledge(self, message: Received) -> None:
        raise NotImplementedError("a group commits offsets and acknowledges no single message")

    async def close(self) -> None:
        await self._made.stop()
