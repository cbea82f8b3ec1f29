"""Producers of numbered records, so that acknowledged records can be compared with stored ones."""

import struct
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition

Record: TypeAlias = tuple[int, int]
"""Producer and number."""

_HEAD = struct.Struct(">II")
_READY_S = 30
_ANSWERS_S = 6
_READ_S = 60
_SETTINGS: dict[str, str | int | bool] = {
    "log_level": 2,
    "enable.idempotence": True,
    # All arms get the same small buffer: with a large one, gaps only show the buffer.
    "queue.buffering.max.kbytes": 1024,
    "batch.num.messages": 1,
    "linger.ms": 0,
    "message.timeout.ms": 120_000,
    "request.timeout.ms": 60_000,
}
"""A batch for each record, so that acknowledgements come evenly."""


@dataclass(slots=True)
class NumberedProducer:
    """One idempotent producer that sends as fast as possible."""

    number: int
    acked: dict[int, float] = field(default_factory=dict)
    """Seconds (monotonic) of each acknowledgement, by the record's number."""
    errored: set[int] = field(default_factory=set)
    """Records that the client gave up."""
    sent: int = 0
    _given_up: bool = False

    def run(
        self, bootstrap: str, topic: str, record_bytes: int, stop: threading.Event, pause_s: float = 0.0
    ) -> None:
        """Send until `stop` is set; records unanswered some seconds later are neither acked nor errored."""
        producer = Producer({**_SETTINGS, "bootstrap.servers": bootstrap})
        padding = bytes(record_bytes - _HEAD.size)
        while not stop.is_set():
            value = _HEAD.pack(self.number, self.sent) + padding
            try:
                producer.produce(topic, value, on_delivery=partial(self._answered, self.sent))
            except BufferError:
                # librdkafka's queue is full; the same number is tried again, so that none is left out.
                producer.poll(0.02)
            else:
                self.sent += 1
                producer.poll(0)
                if pause_s:
                    stop.wait(pause_s)
        producer.flush(_ANSWERS_S)
        self._given_up = True
        producer.purge(in_queue=True, in_flight=True)
        producer.flush(5)

    def _answered(self, record: int, error: KafkaError | None, _: Message) -> None:
        if error is None:
            self.acked[record] = time.monotonic()
        elif not self._given_up:
            self.errored.add(record)


@contextmanager
def sending(
    bootstrap: str, topic: str, *, producers: int, record_bytes: int, pause_s: float = 0.0
) -> Iterator[list[NumberedProducer]]:
    """Several producers that send during the block, and wait for their answers after it.

    :param pause_s: between two records; 0 for as fast as possible.
    :raises RuntimeError: if one of them gets no acknowledgement at all.
    """
    stop = threading.Event()
    all_of_them = [NumberedProducer(number) for number in range(producers)]
    threads = [
        threading.Thread(target=each.run, args=(bootstrap, topic, record_bytes, stop, pause_s))
        for each in all_of_them
    ]
    for thread in threads:
        thread.start()
    try:
        deadline = time.monotonic() + _READY_S
        while not all(each.acked for each in all_of_them):
            if time.monotonic() > deadline:
                raise RuntimeError(f"not every producer was admitted within {_READY_S} s")
            time.sleep(0.05)
        yield all_of_them
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def end_offset(bootstrap: str, topic: str) -> int:
    """End offset of partition 0."""
    client = _reader(bootstrap)
    try:
        return int(client.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)[1])
    finally:
        client.close()


def stored(bootstrap: str, topic: str) -> Counter[Record]:
    """How often partition 0 holds each record.

    :raises RuntimeError: if they cannot all be read.
    """
    records: Counter[Record] = Counter()
    end, deadline = end_offset(bootstrap, topic), time.monotonic() + _READ_S
    client = _reader(bootstrap)
    try:
        client.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        while records.total() < end:
            for message in client.consume(1000, timeout=1):
                value = message.value()
                if message.error() is None and value is not None:
                    producer, number = _HEAD.unpack_from(value)
                    records[producer, number] += 1
            if time.monotonic() > deadline:
                raise RuntimeError(f"{records.total()} of {end} records could be read in {_READ_S} s")
    finally:
        client.close()
    return records


def account(senders: list[NumberedProducer], kept: Mapping[Record, int]) -> dict[str, float]:
    """Compare answers with stored records: an acknowledged one must be stored once, an errored one never.

    :param kept: how often each record is stored.
    """
    acked = {(each.number, record) for each in senders for record in each.acked}
    errored = {(each.number, record) for each in senders for record in each.errored}
    return {
        "acked_records": float(len(acked)),
        "errored_records": float(len(errored)),
        "duplicated_records": float(sum(times - 1 for times in kept.values() if times > 1)),
        "errored_but_stored": float(sum(1 for record in errored if kept.get(record))),
        "lost_records": float(sum(1 for record in acked if not kept.get(record))),
        "unanswered_records": float(sum(each.sent for each in senders) - len(acked) - len(errored)),
    }


def _reader(bootstrap: str) -> Consumer:
    return Consumer({"bootstrap.servers": bootstrap, "group.id": "benchmark", "log_level": 2})
