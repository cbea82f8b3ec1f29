"""aiokafka, on an event loop of its own."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import KafkaError
from tests.kafka.real.support.families.base import (
    ANSWER_S,
    Mode,
    Received,
    Settings,
    Target,
    values_of,
    wall_ms,
)
from tests.kafka.real.support.history import ClientLog, Entry
from tests.loops import LoopThread
from tests.waiting import AIOKAFKA_SESSION_MS

_NAMES = {"batch.size": "max_batch_size", "compression.type": "compression_type"}


def _options(settings: Settings | None) -> dict[str, Any]:
    return {_NAMES.get(name, name.replace(".", "_")): value for name, value in (settings or {}).items()}


class AiokafkaFamily:
    """aiokafka's exception classes: `PolicyViolationError`."""

    name = "aiokafka"

    def __init__(self) -> None:
        loop = LoopThread("aiokafka")
        self.run, self.close = loop.run, loop.end

    def publish(
        self,
        bootstrap: str,
        topic: str,
        pads: Sequence[int],
        *,
        mode: Mode = Mode.PLAIN,
        per_transaction: int = 0,
        lane: str = "",
        timestamp_ms: int | None = None,
        settings: Settings | None = None,
    ) -> ClientLog:
        """As `Family.publish`."""
        lane = lane or self.name
        options: dict[str, Any] = {"bootstrap_servers": bootstrap, "client_id": lane} | _options(settings)
        if mode is not Mode.PLAIN:
            options["enable_idempotence"] = True
        if mode is Mode.TRANSACTIONAL:
            options["transactional_id"] = f"{topic}-{lane}"
        return self.run(_publish(options, Target(topic, lane, timestamp_ms), pads, per_transaction)).result()

    def member(
        self, bootstrap: str, topics: Sequence[str], group: str, settings: Settings | None = None
    ) -> "AiokafkaMember":
        """As `Family.member`."""
        options = {
            "bootstrap_servers": bootstrap,
            "group_id": group or None,
            "auto_offset_reset": "earliest",
            "session_timeout_ms": AIOKAFKA_SESSION_MS,
        }
        return AiokafkaMember(self, topics, options | _options(settings))

    def commit(self, bootstrap: str, topic: str, group: str, offset: int) -> str:
        """As `Family.commit`."""
        return self.run(_commit(bootstrap, TopicPartition(topic, 0), group, offset)).result(ANSWER_S)


async def _publish(
    options: Mapping[str, Any], target: Target, pads: Sequence[int], per_transaction: int
) -> ClientLog:
    log = ClientLog()
    values = values_of(log, target.lane, pads)
    pairs = list(zip(log.sent, values, strict=True))
    async with AIOKafkaProducer(**options) as producer:
        if per_transaction == 0:
            await _send(producer, target, pairs, log)
            return log
        for first in range(0, len(pairs), per_transaction):
            await _transact(producer, target, pairs[first : first + per_transaction], log)
    return log


async def _send(
    producer: AIOKafkaProducer, target: Target, pairs: list[tuple[Entry, bytes]], log: ClientLog
) -> None:
    at_ms = target.timestamp_ms
    answers = [
        (entry, await producer.send(target.topic, value, key=target.key, timestamp_ms=at_ms))
        for entry, value in pairs
    ]
    await asyncio.wait([answer for _, answer in answers], timeout=ANSWER_S)
    for entry, answer in answers:
        error = answer.exception()
        if error is None:
            placed = answer.result()
            # With acks=0 there is nothing to be told.
            log.ack(entry, *((placed.partition, placed.offset) if placed is not None else ()))
        else:
            log.error(entry, _text(error))


async def _transact(
    producer: AIOKafkaProducer, target: Target, pairs: list[tuple[Entry, bytes]], log: ClientLog
) -> None:
    told = ClientLog()
    try:
        async with producer.transaction():
            await _send(producer, target, pairs, told)
            if told.errored:
                raise KafkaError("a record of the transaction failed")
    except KafkaError as refused:
        for entry, _ in pairs:
            log.error(entry, told.errored.get(entry, _text(refused)))
    else:
        log.acked |= told.acked


async def _commit(bootstrap: str, partition: TopicPartition, group: str, offset: int) -> str:
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False)
    consumer.assign([partition])
    await consumer.start()
    try:
        await consumer.commit({partition: offset})
    except KafkaError as error:
        return _text(error)
    finally:
        await consumer.stop()
    return ""


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


class AiokafkaMember(ConsumerRebalanceListener):  # type: ignore[misc]
    """One consumer, read by a task."""

    def __init__(self, family: AiokafkaFamily, topics: Sequence[str], options: Mapping[str, Any]) -> None:
        self.errors: list[str] = []
        self.received: list[Received] = []
        self.assigned = -1
        self._stopping = asyncio.Event()
        self._done = family.run(self._consume(topics, options))
        self._family = family

    def close(self) -> None:
        """As `Member.close`."""
        if not self._done.done():
            self._family.run(self._stop()).result(ANSWER_S)
        self._done.result(ANSWER_S)

    async def _stop(self) -> None:
        self._stopping.set()

    def on_partitions_assigned(self, assigned: set[Any]) -> None:
        """Called by aiokafka."""
        self.assigned = len(assigned)

    def on_partitions_revoked(self, revoked: set[Any]) -> None:
        """Called by aiokafka."""

    async def _consume(self, topics: Sequence[str], options: Mapping[str, Any]) -> None:
        consumer = AIOKafkaConsumer(**options)
        if options["group_id"] is None:
            consumer.assign([TopicPartition(topic, 0) for topic in topics])
            self.assigned = len(topics)
        else:
            consumer.subscribe(topics, listener=self)
        try:
            await consumer.start()
            while not self._stopping.is_set():
                for records in (await consumer.getmany(timeout_ms=100)).values():
                    at_ms = wall_ms()
                    self.received += [
                        Received(one.topic, one.partition, one.offset, one.value, one.timestamp, at_ms)
                        for one in records
                    ]
        except KafkaError as error:
            self.errors.append(_text(error))
        finally:
            with suppress(KafkaError):
                await consumer.stop()
