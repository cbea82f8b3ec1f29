"""Producers that record when, or how late, each of their records was acknowledged."""

import threading
import time
from dataclasses import dataclass, field

from confluent_kafka import KafkaError, Message, Producer

from benchmarks.harness.saturation import Saturation

_WARNINGS = 4
_SETTINGS: dict[str, str | int | bool] = {
    "log_level": _WARNINGS,
    "acks": "1",
    "enable.idempotence": False,
    # All arms get the same small buffer: with a large one, latency and gaps only show the buffer.
    "queue.buffering.max.kbytes": 1024,
    "batch.size": 32_768,
    "linger.ms": 0,
    "message.timeout.ms": 120_000,
    "request.timeout.ms": 60_000,
}


@dataclass(slots=True)
class _Saturating:
    """One producer that sends as fast as possible."""

    bootstrap: str
    topic: str
    value: bytes
    ready: threading.Barrier
    stop: threading.Event
    times: list[float] = field(default_factory=list)
    failed: int = 0

    def run(self) -> None:
        """Connect, wait for the others, and send until `stop` is set; unanswered records are then dropped."""
        producer = Producer({**_SETTINGS, "bootstrap.servers": self.bootstrap})
        producer.list_topics(self.topic, timeout=30)
        self.ready.wait(30)
        while not self.stop.is_set():
            try:
                producer.produce(self.topic, self.value, on_delivery=self._acknowledged)
                producer.poll(0)
            except BufferError:
                # librdkafka's queue is full: only answers make room in it.
                producer.poll(0.05)
        producer.purge(in_queue=True, in_flight=True)
        producer.flush(5)

    def _acknowledged(self, error: KafkaError | None, _: Message) -> None:
        if self.stop.is_set():
            return
        if error is None:
            self.times.append(time.monotonic())
        else:
            self.failed += 1


def saturate(bootstrap: str, topic: str, *, producers: int, record_bytes: int, seconds: float) -> Saturation:
    """Have several equal producers send as fast as possible, each on its own connection."""
    starts: list[float] = []
    # The barrier's action runs before any thread is released; this one may be the last to run again.
    ready = threading.Barrier(producers + 1, action=lambda: starts.append(time.monotonic()))
    stop = threading.Event()
    senders = [_Saturating(bootstrap, topic, bytes(record_bytes), ready, stop) for _ in range(producers)]
    threads = [threading.Thread(target=sender.run) for sender in senders]
    for thread in threads:
        thread.start()
    try:
        ready.wait(60)
        time.sleep(seconds)
    finally:
        ready.abort()
        stop.set()
        for thread in threads:
            thread.join()
    return Saturation(
        starts[0], [sender.times for sender in senders], sum(sender.failed for sender in senders)
    )


def paced_latencies(
    bootstrap: str, topic: str, *, records_per_s: int, record_bytes: int, warmup_s: float, seconds: float
) -> list[float]:
    """Seconds from sending to acknowledgement of each record, as librdkafka itself measures them.

    :param warmup_s: time before `seconds` whose records are left out.
    :raises RuntimeError: if a record is not acknowledged.
    """
    latencies: list[float] = []
    failures: list[str] = []

    def acknowledged(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failures.append(str(error))
        else:
            latencies.append(message.latency() or 0.0)

    producer = Producer({**_SETTINGS, "bootstrap.servers": bootstrap})
    value = bytes(record_bytes)
    start = time.monotonic()
    count = int((warmup_s + seconds) * records_per_s)
    for number in range(count):
        while (wait := start + number / records_per_s - time.monotonic()) > 0:
            producer.poll(wait)
        producer.produce(topic, value, on_delivery=acknowledged)
    producer.flush(30)
    if failures or len(latencies) != count:
        raise RuntimeError(f"{len(latencies)} of {count} records were acknowledged: {failures[:3]}")
    return latencies[int(warmup_s * records_per_s) :]
