"""What pulsar-client does for the benchmarks: publish, consume, and write down how long it took."""

import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pulsar

_ANSWER_S = 60
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Route:
    """Where clients connect."""

    url: str
    listener: str | None = None
    """The broker's listener to ask for, where something that reads no Pulsar stands in between."""


@contextmanager
def connected(route: Route) -> Iterator[Any]:
    """A client with one connection to each broker."""
    # What goes wrong is raised, or told to the callback of a message.
    logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    client = pulsar.Client(route.url, listener_name=route.listener, logger=logger)
    try:
        yield client
    finally:
        with suppress(pulsar.PulsarException):
            client.close()


@dataclass(slots=True)
class Receipts:
    """Counts the answers to messages; `done` is set with the last one."""

    expected: int
    failures: list[str] = field(default_factory=list)
    done: threading.Event = field(default_factory=threading.Event)
    _answers: int = 0

    def __call__(self, result: object, _message: object) -> None:
        """Take one answer; calls come one after another, from the client's own thread."""
        if result != pulsar.Result.Ok:
            self.failures.append(str(result))
        self._answers += 1
        if self._answers == self.expected:
            self.done.set()

    def wait(self, timeout_s: float) -> None:
        """Return with the last answer.

        :raises RuntimeError: if it does not come in time, or a message failed.
        """
        if not self.done.wait(timeout_s) or self.failures:
            raise RuntimeError(f"{self._answers} of {self.expected} answers: {self.failures[:3]}")


def publish(route: Route, topic: str, *, messages: int, message_bytes: int, batched: bool = False) -> float:
    """Send as fast as the client's default of 1,000 pending messages lets; returns messages per second.

    :raises RuntimeError: if a message is not stored.
    """
    value, receipts = bytes(message_bytes), Receipts(messages)
    with connected(route) as client:
        producer = client.create_producer(topic, batching_enabled=batched, block_if_queue_full=True)
        start = time.perf_counter()
        for _ in range(messages):
            producer.send_async(value, receipts)
        receipts.wait(_ANSWER_S)
        return messages / (time.perf_counter() - start)


def consume(route: Route, topic: str, messages: int) -> float:
    """Receive and acknowledge messages from the start of a topic; returns messages per second.

    :raises pulsar.PulsarException: if one does not come.
    """
    with connected(route) as client:
        name, earliest = f"benchmark-{next(_numbers)}", pulsar.InitialPosition.Earliest
        start = time.perf_counter()
        consumer = client.subscribe(topic, name, initial_position=earliest)
        for _ in range(messages):
            consumer.acknowledge(consumer.receive(_ANSWER_S * 1000))
        speed = messages / (time.perf_counter() - start)
        consumer.unsubscribe()
        return speed


def paced(count: int, per_s: float) -> Iterator[int]:
    """Numbers from 0, so many in a second; after a stall those come at once that were due."""
    start = time.monotonic()
    for number in range(count):
        while (wait := start + number / per_s - time.monotonic()) > 0:
            time.sleep(wait)
        yield number


def paced_latencies(
    route: Route, topic: str, *, per_s: int, message_bytes: int, warmup_s: float, seconds: float
) -> list[float]:
    """Seconds from sending to the receipt of each message, without batches.

    :param per_s: messages per second.
    :param warmup_s: time before `seconds` whose messages are left out.
    :raises RuntimeError: if a message is not stored.
    """
    count, latencies = int((warmup_s + seconds) * per_s), []
    receipts, value = Receipts(count), bytes(message_bytes)

    def received(sent: float, result: object, message: object) -> None:
        latencies.append(time.perf_counter() - sent)
        receipts(result, message)

    with connected(route) as client:
        producer = client.create_producer(topic, block_if_queue_full=True)
        for _ in paced(count, per_s):
            producer.send_async(value, partial(received, time.perf_counter()))
        receipts.wait(_ANSWER_S)
    return latencies[int(warmup_s * per_s) :]
