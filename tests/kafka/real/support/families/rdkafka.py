"""librdkafka, by confluent-kafka."""

import threading
from collections.abc import Sequence
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from tests.kafka.real.support.clients import send_one
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

_MODES: dict[Mode, dict[str, Any]] = {
    Mode.PLAIN: {},
    Mode.IDEMPOTENT: {"enable.idempotence": True},
    Mode.TRANSACTIONAL: {"enable.idempotence": True},
}


NO_GROUP = "none"
"""The group of those who are in none: librdkafka insists on a name."""


class RdkafkaFamily:
    """librdkafka's own error names: `POLICY_VIOLATION`."""

    name = "librdkafka"

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
        log = ClientLog()
        lane = lane or self.name
        values = values_of(log, lane, pads)
        options = {"bootstrap.servers": bootstrap, "client.id": lane} | _MODES[mode] | dict(settings or {})
        if mode is Mode.TRANSACTIONAL:
            options["transactional.id"] = f"{topic}-{lane}"
        producer, target = Producer(options), Target(topic, lane, timestamp_ms)
        if mode is not Mode.TRANSACTIONAL:
            _send(producer, target, list(zip(log.sent, values, strict=True)), log)
            left = producer.flush(ANSWER_S)
            assert left == 0, f"{left} of {len(pads)} sends were not answered"
            return log
        producer.init_transactions(ANSWER_S)
        for first in range(0, len(pads), per_transaction):
            batch = list(zip(log.sent, values, strict=True))[first : first + per_transaction]
            _transact(producer, target, batch, log)
        return log

    def member(
        self, bootstrap: str, topics: Sequence[str], group: str, settings: Settings | None = None
    ) -> "RdkafkaMember":
        """As `Family.member`."""
        return RdkafkaMember(
            topics,
            {"bootstrap.servers": bootstrap, "group.id": group or NO_GROUP, "auto.offset.reset": "earliest"}
            | dict(settings or {}),
        )

    def commit(self, bootstrap: str, topic: str, group: str, offset: int) -> str:
        """As `Family.commit`."""
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False})
        try:
            consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
        except KafkaException as refused:
            error = refused.args[0]
            return f"{error.name()}: {error.str()}"
        finally:
            consumer.close()
        return ""


def _send(producer: Producer, target: Target, batch: list[tuple[Entry, bytes]], log: ClientLog) -> None:
    def answered(entry: Entry) -> Any:
        def note(error: KafkaError | None, message: Message) -> None:
            if error is None:
                log.ack(entry, message.partition(), message.offset())
            else:
                log.error(entry, f"{error.name()}: {error.str()}")

        return note

    for entry, value in batch:
        send_one(producer, target.topic, value, target.key, answered(entry), target.timestamp_ms or 0)


def _transact(producer: Producer, target: Target, batch: list[tuple[Entry, bytes]], log: ClientLog) -> None:
    told = ClientLog()
    producer.begin_transaction()
    try:
        _send(producer, target, batch, told)
        producer.commit_transaction(ANSWER_S)
    except KafkaException as refused:
        producer.abort_transaction(ANSWER_S)
        error = refused.args[0]
        for entry, _ in batch:
            log.error(entry, told.errored.get(entry, f"{error.name()}: {error.str()}"))
    else:
        log.acked |= told.acked


class RdkafkaMember:
    """One consumer, polled by a thread of its own."""

    def __init__(self, topics: Sequence[str], options: dict[str, Any]) -> None:
        self.errors: list[str] = []
        self.received: list[Received] = []
        self.assigned = -1
        self._stopping = threading.Event()
        self._consumer = Consumer(options)
        if options["group.id"] == NO_GROUP:
            self._consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING) for topic in topics])
            self.assigned = len(topics)
        else:
            self._consumer.subscribe(list(topics), on_assign=self._on_assign, on_revoke=self._on_revoke)
        self._thread = threading.Thread(target=self._poll, name=f"consumer of {topics}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """As `Member.close`."""
        self._stopping.set()
        self._thread.join(ANSWER_S)
        assert not self._thread.is_alive(), "the consumer does not close"

    def _on_assign(self, consumer: Consumer, partitions: list[Any]) -> None:
        self.assigned = len(partitions)

    def _on_revoke(self, consumer: Consumer, partitions: list[Any]) -> None:
        self.assigned = max(0, self.assigned - len(partitions))

    def _poll(self) -> None:
        while not self._stopping.is_set():
            message = self._consumer.poll(0.1)
            if message is not None:
                self._note(message)
        self._consumer.close()

    def _note(self, message: Message) -> None:
        error = message.error()
        if error is not None:
            self.errors.append(f"{error.name()}: {error.str()}")
            return
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        assert topic is not None
        assert partition is not None
        assert offset is not None
        value = bytes(message.value() or b"")
        self.received.append(Received(topic, partition, offset, value, message.timestamp()[1], wall_ms()))
