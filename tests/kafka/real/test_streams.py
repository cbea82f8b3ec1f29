"""Slow readers beside a fast one: byte-exact for both, in bounded memory."""

import hashlib
import random
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

import psutil
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from tests.kafka.real.support.broker import KafkaBroker
from tests.kafka.real.support.clients import create_topic
from tests.kafka.real.support.gate import Gate
from tests.kafka.real.support.raw import RawClient, call
from tests.waiting import LONG_S

_MIB = 1 << 20
_RECORDS, _RECORD_BYTES = 4096, 10 * 1024
_SLOW = 4
_PIECE, _PAUSE_S = 64 * 1024, 0.01
_TOPIC = "long"
_READ = {"max_dispatch_rate_bytes": 10**9}
"""Makes the gate look into what it delivers, and never hold it."""


@pytest.fixture(scope="module")
def content(kafka: KafkaBroker) -> str:
    """Digest of all values of a topic of 40 MiB, in order."""
    create_topic(kafka.bootstrap, _TOPIC)
    numbers, digest = random.Random(7), hashlib.sha256()
    settings = {"linger.ms": 20, "batch.size": 512 * 1024, "enable.idempotence": True}
    producer = Producer({"bootstrap.servers": kafka.bootstrap, **settings})
    for _ in range(_RECORDS):
        value = numbers.randbytes(_RECORD_BYTES)
        digest.update(value)
        producer.produce(_TOPIC, value)
    assert producer.flush(LONG_S) == 0
    return digest.hexdigest()


def fetch(partition_bytes: int) -> Any:
    """A Fetch of up to so many bytes from the start of the topic."""
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": partition_bytes}
    return call(
        "fetch",
        12,
        max_wait=timedelta(milliseconds=500),
        min_bytes=1,
        max_bytes=partition_bytes,
        topics=[{"topic": _TOPIC, "partitions": [partition]}],
        forgotten_topics_data=[],
        rack_id="",
    )


def fetched(bootstrap: str, partition_bytes: int) -> bytes:
    """What a broker answers to it."""
    with RawClient(bootstrap) as raw:
        raw.post(fetch(partition_bytes))
        return raw.frame()


class SlowReader:
    """Asks for much at once and reads half of it in small pieces, in a thread of its own; then it stalls."""

    def __init__(self, bootstrap: str, partition_bytes: int) -> None:
        self._raw = RawClient(bootstrap, client_id="slow", receive_bytes=_PIECE)
        self._raw.post(fetch(partition_bytes))
        self._half = partition_bytes // 2
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self.received = bytearray()
        self.closed = False

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.set()
        self._thread.join()
        self._raw.socket.close()

    @property
    def complete(self) -> bool:
        """Whether the whole response is there."""
        return len(self.received) >= 4 and len(self.received) == 4 + int.from_bytes(self.received[:4], "big")

    def finish(self) -> bytes:
        """Read the rest at once, and return the response without its length, cut off if it was closed."""
        self._ending.set()
        self._thread.join()
        while not (self.complete or self.closed):
            self._take(_MIB)
        return bytes(self.received[4:])

    def _read(self) -> None:
        while not (self._ending.is_set() or self.closed):
            if len(self.received) > self._half:
                time.sleep(_PAUSE_S)
                continue
            self._take(_PIECE)
            time.sleep(_PAUSE_S)

    def _take(self, most: int) -> None:
        try:
            piece = self._raw.socket.recv(most)
        except ConnectionError:
            piece = b""
        self.closed = not piece
        self.received += piece


def read_fast(bootstrap: str) -> str:
    """Digest of all values in order."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "fast", "enable.auto.commit": False})
    digest, count = hashlib.sha256(), 0
    try:
        consumer.assign([TopicPartition(_TOPIC, 0, 0)])
        while count < _RECORDS:
            messages = consumer.consume(min(500, _RECORDS - count), timeout=LONG_S)
            assert messages, f"nothing more after {count} records"
            for message in messages:
                assert message.error() is None
                digest.update(message.value() or b"")
            count += len(messages)
        return digest.hexdigest()
    finally:
        consumer.close()


class Watch:
    """The largest memory of a worker while it is watched."""

    def __init__(self, gate: Gate) -> None:
        self._process = next(
            p for p in gate.processes()[1:] if "sluicegate.processes.worker_main" in p.cmdline()
        )
        self._before = self._largest = self._process.memory_info().rss

    @property
    def grown_mib(self) -> float:
        """By how much it grew, at its largest."""
        return (self._largest - self._before) / _MIB

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Look every 20 ms."""
        ending = threading.Event()

        def look() -> None:
            while not ending.wait(0.02):
                try:
                    self._largest = max(self._largest, self._process.memory_info().rss)
                except psutil.NoSuchProcess:
                    return

        thread = threading.Thread(target=look, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ending.set()
            thread.join()


@pytest.mark.parametrize(
    ("policies", "partition_mib", "bound_mib"),
    [
        # Nothing looks into what is delivered: it streams through.
        pytest.param({}, 39, 24, id="streamed"),
        # Each response is kept whole until its reader has taken it.
        pytest.param(_READ, 8, 4 * 8 * 3, id="read"),
    ],
)
def test_slow_readers_beside_a_fast_one(
    kafka: KafkaBroker, content: str, tmp_path: Any, policies: Any, partition_mib: int, bound_mib: int
) -> None:
    expected = fetched(kafka.bootstrap, partition_mib * _MIB)
    assert len(expected) > (partition_mib - 1) * _MIB
    with Gate(tmp_path / "gate", kafka.bootstrap, policies) as gate, ExitStack() as stack:
        gate.eventually(lambda: "listener='node-1'" in gate.output(), "the node is listened for")
        assert read_fast(gate.bootstrap) == content
        watch = Watch(gate)
        with watch.watching():
            node = f"127.0.0.1:{gate.port + 2}"
            slow = [stack.enter_context(SlowReader(node, partition_mib * _MIB)) for _ in range(_SLOW)]
            gate.eventually(lambda: all(reader.received for reader in slow), "they have begun")
            # They stall half-way until it is through.
            assert read_fast(gate.bootstrap) == content
        assert watch.grown_mib < bound_mib
        for reader in slow:
            # Behind the length stands the correlation id, which is 1 in both.
            assert reader.finish() == expected


def test_slow_readers_over_the_budget_are_closed(kafka: KafkaBroker, content: str, tmp_path: Any) -> None:
    """What slow readers keep is bounded by `buffer_budget`: those that keep most go, the others stay."""
    small = fetched(kafka.bootstrap, 2 * _MIB)
    with (
        Gate(tmp_path / "gate", kafka.bootstrap, _READ, {"buffer_budget": "64MiB"}) as gate,
        ExitStack() as stack,
    ):
        gate.eventually(lambda: "listener='node-1'" in gate.output(), "the node is listened for")
        node = f"127.0.0.1:{gate.port + 2}"
        watch = Watch(gate)
        stack.enter_context(watch.watching())
        modest = stack.enter_context(SlowReader(node, 2 * _MIB))
        greedy = [stack.enter_context(SlowReader(node, 39 * _MIB)) for _ in range(_SLOW)]
        gate.eventually(lambda: gate.metric("sluicegate_buffer_budget_used_up_total") > 0, "it is counted")
        assert read_fast(gate.bootstrap) == content
        gate.eventually(lambda: gate.metric("sluicegate_buffered_bytes") <= 64 * _MIB, "the rest fits")
        # The gateway looks once a second; until then it may keep what they asked for.
        assert watch.grown_mib < 2 * 39 * _SLOW
        assert "closing connection: buffer_budget_used_up" in gate.output()
        for reader in greedy:
            reader.finish()
        assert any(reader.closed for reader in greedy)
        assert modest.finish() == small
