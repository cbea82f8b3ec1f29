"""Latency of one producer, alone and beside another one of its connection that sends more than it may."""

import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pulsar

from benchmarks.harness import jars
from benchmarks.harness.processes import run_tool
from benchmarks.harness.pulsar import LOGGING, OPENED
from benchmarks.harness.pulsar_clients import Receipts, Route, paced

_PROGRAM = Path(__file__).with_name("java") / "Beside.java"
_MESSAGE_BYTES = 100
_PER_S = 200
_OTHER_PER_S = 2_000
"""Of the Java client, which keeps 64 MiB pending: that would take minutes to reach."""
_PENDING = 1_000
"""What the C++ client, hence the Python one, keeps pending of a producer by default."""
_ANSWER_S = 120


@dataclass(frozen=True, slots=True)
class Stretch:
    """A client of its own for some seconds."""

    name: str
    topic: str
    other: str | None = None
    """Topic of the producer beside; None for none."""


def python_latencies(
    route: Route, stretches: Sequence[Stretch], *, warmup_s: int, seconds: int
) -> Mapping[str, list[float]]:
    """Seconds from sending to the receipt by the name of the stretch, with pulsar-client.

    :raises RuntimeError: if a message is not stored.
    """
    found: dict[str, list[float]] = defaultdict(list)
    for stretch in stretches:
        client = pulsar.Client(route.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
        try:
            producer = client.create_producer(stretch.topic)
            with _flooding(client, stretch.other):
                latencies = _latencies(producer, (warmup_s + seconds) * _PER_S)
            found[stretch.name] += latencies[warmup_s * _PER_S :]
        finally:
            client.shutdown()  # a close would wait for what waits of the other
    return found


def _latencies(producer: object, count: int) -> list[float]:
    receipts, latencies, value = Receipts(count), [], bytes(_MESSAGE_BYTES)

    def received(sent: float, result: object, message: object) -> None:
        latencies.append(time.perf_counter() - sent)
        receipts(result, message)

    for _ in paced(count, _PER_S):
        producer.send_async(value, partial(received, time.perf_counter()))  # type: ignore[attr-defined]
    receipts.wait(_ANSWER_S)
    return latencies


@contextmanager
def _flooding(client: "pulsar.Client", topic: str | None) -> Iterator[None]:
    """Keep as much pending to a topic as the client's default allows."""
    if topic is None:
        yield
        return
    producer, stop, value = client.create_producer(topic), threading.Event(), bytes(_MESSAGE_BYTES)
    room = threading.Semaphore(_PENDING)

    def flood() -> None:
        while not stop.is_set():
            if room.acquire(timeout=0.1):
                producer.send_async(value, lambda result, message: room.release())

    thread = threading.Thread(target=flood, name="flood")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def java_latencies(
    route: Route, stretches: Sequence[Stretch], *, warmup_s: int, seconds: int
) -> Mapping[str, list[float]]:
    """The same with the Java client and its batching.

    :raises UnavailableError: if there is no Java.
    :raises RuntimeError: if a message is not stored.
    """
    topics = [f"{each.name}={each.topic}{f',{each.other}' if each.other else ''}" for each in stretches]
    command: list[str | Path] = [
        *(jars.java(), f"-Dlog4j2.configurationFile={LOGGING}", "-Dsluicegate.log.level=error"),
        *(f"--add-opens={package}=ALL-UNNAMED" for package in OPENED),
        *("-cp", jars.pulsar(), _PROGRAM, route.url),
        *map(str, (warmup_s, seconds, _PER_S, _OTHER_PER_S)),
        *topics,
    ]
    found: dict[str, list[float]] = defaultdict(list)
    for line in run_tool(command, _ANSWER_S * len(stretches)).splitlines():
        name, _, taken = line.partition(" ")
        if taken.isdigit():
            found[name].append(int(taken) / 1e9)
    return found
