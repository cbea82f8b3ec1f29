"""Wrappers of confluent-kafka's classes at a door: those that block, in threads, and those of asyncio."""

from collections.abc import Callable, Mapping
from typing import Any, cast

from confluent_kafka import KafkaError, KafkaException, Message
from tests.conformance.kafka_messages import PARTITION, decoded, encoded, group
from tests.conformance.policing import Policed, in_thread

from sluicegate.embedded import PolicyEngine
from sluicegate.testing.conformance.door import Received, RefusedByDoor, Sample
from sluicegate_kafka.client import AIOConsumer, AIOProducer, Consumer, Producer

_REFUSALS = (
    KafkaError.POLICY_VIOLATION,
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
)


class _ConfluentDoor(Policed):
    """A door within clients.

    :param policed: what decides.
    :param engine: the same, as the wrappers want it.
    :param address: of the broker.
    """

    def __init__(self, policed: Policed, engine: PolicyEngine, address: str) -> None:
        super().__init__(policed.file, policed.sink, policed.gates, policed.tells_reasons)
        self._engine, self._address = engine, address

    def _settings(self, name: str, **more: Any) -> dict[str, Any]:
        named = {key.replace("_", "."): value for key, value in more.items()}
        # What is not closed before its broker ends says so again and again.
        return {"bootstrap.servers": self._address, "client.id": name, "log_level": 0, **named}

    def _new(self, producer: Callable[..., Any], name: str) -> Callable[[Sample], Any]:
        def new(first: Sample) -> Any:
            codec = "gzip" if first.compressed else "none"
            settings = self._settings(name, linger_ms=0, compression_type=codec)
            return producer(settings, policies=self._engine)

        return new

    def _of_member(self, name: str, topic: str, subscription: str) -> dict[str, Any]:
        return self._settings(name, group_id=group(topic, subscription), auto_offset_reset="earliest")


class BlockingDoor(_ConfluentDoor):
    """The classes that block."""

    async def producer(self, topic: str, name: str, principal: str) -> "_BlockingProducer":
        """A producer, which is made when it publishes first: nobody knows of it before."""
        return _BlockingProducer(self._new(Producer, name), topic)

    async def consumer(self, topic: str, subscription: str, name: str, principal: str) -> "_BlockingConsumer":
        """The member of a group, which joins as it is polled."""
        settings = self._of_member(name, topic, subscription)
        return _BlockingConsumer(await in_thread(self._subscribed, settings, topic))

    def _subscribed(self, settings: Mapping[str, Any], topic: str) -> Consumer:
        made = Consumer(settings, policies=self._engine)
        try:
            made.subscribe([topic])
        except KafkaException as error:
            made.close()
            raise _refusal(error) from None
        return made


class _BlockingProducer:
    def __init__(self, make: Callable[[Sample], Producer], topic: str) -> None:
        self._make, self._topic = make, topic
        self._made: Producer | None = None

    async def publish(self, message: Sample) -> None:
        await in_thread(self._publish, message)

    def _publish(self, message: Sample) -> None:
        if self._made is None:
            self._made = self._make(message)
        made = self._made
        results: list[KafkaError | None] = []
        try:
            made.produce(
                self._topic,
                encoded(message),
                message.key,
                PARTITION,
                on_delivery=lambda error, _: results.append(error),
                headers=dict(message.headers),
            )
        except KafkaException as error:
            raise _refusal(error) from None
        made.flush()
        if results[0] is not None:
            raise KafkaException(results[0])

    async def close(self) -> None:
        if self._made is not None:
            await in_thread(self._made.close)


class _BlockingConsumer:
    def __init__(self, made: Consumer) -> None:
        self._made = made

    async def receive(self, within_s: float) -> Received | None:
        return _received(await in_thread(self._made.poll, within_s))

    async def acknowledge(self, message: Received) -> None:
        raise NotImplementedError("a group commits offsets and acknowledges no single message")

    async def close(self) -> None:
        await in_thread(self._made.close)


class AioDoor(_ConfluentDoor):
    """The classes of asyncio; their producer batches messages, and those have no headers."""

    async def producer(self, topic: str, name: str, principal: str) -> "_AioProducer":
        """A producer, which is made when it publishes first: nobody knows of it before."""
        return _AioProducer(self._new(AIOProducer, name), topic)

    async def consumer(self, topic: str, subscription: str, name: str, principal: str) -> "_AioConsumer":
        """The member of a group, which joins as it is polled."""
        made = AIOConsumer(self._of_member(name, topic, subscription), policies=self._engine)
        try:
            await made.subscribe([topic])
        except KafkaException as error:
            await made.close()
            raise _refusal(error) from None
        return _AioConsumer(made)


class _AioProducer:
    def __init__(self, make: Callable[[Sample], AIOProducer], topic: str) -> None:
        self._make, self._topic = make, topic
        self._made: AIOProducer | None = None

    async def publish(self, message: Sample) -> None:
        if self._made is None:
            self._made = self._make(message)
        made = self._made
        try:
            stored = await made.produce(self._topic, encoded(message), message.key, partition=PARTITION)
        except KafkaException as error:
            raise _refusal(error) from None
        await made.flush()
        await stored

    async def close(self) -> None:
        if self._made is not None:
            await self._made.close()


class _AioConsumer:
    def __init__(self, made: AIOConsumer) -> None:
        self._made = made

    async def receive(self, within_s: float) -> Received | None:
        return _received(await self._made.poll(timeout=within_s))

    async def acknowledge(self, message: Received) -> None:
        raise NotImplementedError("a group commits offsets and acknowledges no single message")

    async def close(self) -> None:
        await self._made.close()


def _refusal(error: KafkaException) -> Exception:
    """What an exception means: a refusal by its code, or that something failed."""
    return RefusedByDoor(str(error)) if error.args[0].code() in _REFUSALS else error


def _received(message: Message | None) -> Received | None:
    """What a consumer gets of its library."""
    if message is None:
        return None
    if (error := message.error()) is not None:
        raise KafkaException(error)
    headers = cast("list[tuple[str, bytes]]", message.headers() or [])
    return Received(decoded(message.value()), dict(headers))
