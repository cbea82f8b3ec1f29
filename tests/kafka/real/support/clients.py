"""Stock clients that keep a log for the history checker, and the read-back of a whole topic."""

import asyncio
from collections.abc import Mapping
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.kafka.real.support.history import ClientLog, Entry, Stored
from tests.waiting import LONG_S, until

_COORDINATOR_STARTS = (
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
)


def create_topic(bootstrap: str, name: str, partitions: int = 1, copies: int = 1, **settings: str) -> None:
    """Make a topic and wait until it can be used: until the leader of each partition knows that it leads.

    Before that clients are told to try again, and a producer without idempotence that has several requests
    under way then reorders its own records.

    :param settings: topic settings, with `_` for `.`, such as `max_message_bytes`.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap})
    config = {key.replace("_", "."): value for key, value in settings.items()}
    admin.create_topics([NewTopic(name, partitions, copies, config=config)])[name].result(LONG_S)
    asking = Consumer({"bootstrap.servers": bootstrap, "group.id": "is-there"})
    try:
        for number in range(partitions):
            partition = TopicPartition(name, number)
            until(lambda: _is_led(asking, partition), f"{partition} is led")  # noqa: B023 - used at once
    finally:
        asking.close()


def _is_led(asking: Consumer, partition: TopicPartition) -> bool:
    """Whether a leader answers for a partition."""
    try:
        asking.get_watermark_offsets(partition, timeout=LONG_S)
    except KafkaException:
        return False
    return True


def make_group(bootstrap: str, group: str, topic: str) -> None:
    """Have a group commit an offset, once the group's coordinator has loaded what it keeps."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        until(lambda: _is_committed(consumer, TopicPartition(topic, 0, 0)), f"{group} has an offset")
    finally:
        consumer.close()


def _is_committed(consumer: Consumer, offset: TopicPartition) -> bool:
    try:
        consumer.commit(offsets=[offset], asynchronous=False)
    except KafkaException as error:
        if error.args[0].code() not in _COORDINATOR_STARTS:
            raise
        return False
    return True


def read_topic(bootstrap: str, topic: str, *, committed_only: bool = False, **settings: Any) -> list[Stored]:
    """All records of a topic from its start to its present end, by partition and offset.

    :param committed_only: leave out records of open and aborted transactions.
    :param settings: further librdkafka settings, with `_` for `.`.
    """
    isolation = "read_committed" if committed_only else "read_uncommitted"
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"read-back-{topic}",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
        }
        | {key.replace("_", "."): value for key, value in settings.items()}
    )
    try:
        partitions = consumer.list_topics(topic, timeout=LONG_S).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        found, open_partitions = [], set(partitions)
        while open_partitions:
            message = consumer.poll(LONG_S)
            if message is None:
                raise TimeoutError(f"{topic!r}: no end of partitions {open_partitions} in {LONG_S} s")
            error = message.error()
            if error is None:
                found.append(_stored(message))
            elif error.code() == KafkaError._PARTITION_EOF:
                open_partitions.discard(message.partition())
            elif not error.retriable():
                raise KafkaException(error)
    finally:
        consumer.close()
    return sorted(found, key=lambda record: (record.partition, record.offset))


def _stored(message: Message) -> Stored:
    partition, offset, value = message.partition(), message.offset(), message.value()
    assert partition is not None
    assert offset is not None
    return Stored(partition, offset, bytes(value or b""), message.timestamp()[1])


async def send_with_aiokafka(
    bootstrap: str,
    topic: str,
    count: int,
    *,
    lane: str = "aiokafka",
    pad_bytes: int = 0,
    interval_s: float = 0.0,
    **settings: Any,
) -> ClientLog:
    """Send numbered records of one key and wait for all answers.

    :param pad_bytes: bytes of padding in each value.
    :param interval_s: pause after each send; 0 for as fast as the client takes them.
    :param settings: further arguments of AIOKafkaProducer.
    """
    log = ClientLog()
    padding = b" " * pad_bytes
    answers: list[tuple[Entry, asyncio.Future[Any]]] = []
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, **settings) as producer:
        for number in range(count):
            entry = log.send(lane, number)
            answer = await producer.send(topic, entry.value + padding, key=lane.encode())
            answers.append((entry, answer))
            if interval_s:
                await asyncio.sleep(interval_s)
        await asyncio.wait([answer for _, answer in answers])
    for entry, answer in answers:
        error = answer.exception()
        if error is None:
            placed = answer.result()
            log.ack(entry, placed.partition, placed.offset)
        elif isinstance(error, AioKafkaError):
            log.error(entry, error)
        else:
            raise error
    return log


def send_with_confluent(
    bootstrap: str,
    topic: str,
    count: int,
    *,
    lane: str = "librdkafka",
    pad_bytes: int = 0,
    settings: Mapping[str, Any] | None = None,
) -> ClientLog:
    """Send numbered records of one key, one request at a time, and wait for all answers.

    :param settings: further librdkafka settings.
    """
    log = ClientLog()
    padding = b" " * pad_bytes
    own = {"bootstrap.servers": bootstrap, "linger.ms": 5, "max.in.flight.requests.per.connection": 1}
    producer = Producer(own | dict(settings or {}))

    def answered(entry: Entry) -> Any:
        def note(error: KafkaError | None, message: Message) -> None:
            if error is None:
                log.ack(entry, message.partition(), message.offset())
            else:
                log.error(entry, error)

        return note

    for number in range(count):
        entry = log.send(lane, number)
        send_one(producer, topic, entry.value + padding, lane.encode(), answered(entry))
    left = producer.flush(LONG_S)
    assert left == 0, f"{left} of {count} sends were not answered in {LONG_S} s"
    return log


def send_one(
    producer: Producer, topic: str, value: bytes, key: bytes, note: Any, timestamp_ms: int = 0
) -> None:
    """Queue one record, waiting while the client's queue is full; a time of 0 is the client's own."""
    while True:
        try:
            producer.produce(topic, value, key, on_delivery=note, timestamp=timestamp_ms)
        except BufferError:
            producer.poll(0.1)
        else:
            producer.poll(0)
            return
