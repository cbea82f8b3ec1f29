"""Latency of two producers at the same time: one alone on its connection, one beside a throttled one."""

import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pulsar

from benchmarks.harness.processes import run_tool
from benchmarks.harness.pulsar_clients import Receipts, Route, paced
from sluicegate_reports.runner.brokers import jars
from sluicegate_reports.runner.brokers.pulsar import LOGGING, OPENED

ALONE, BESIDE = "alone", "beside"
_PROGRAM = Path(__file__).with_name("java") / "Beside.java"
_MESSAGE_BYTES = 100
_PER_S = 200
_OTHER_PER_S = 2_000
"""Of the Java client, which keeps 64 MiB pending: that would take minutes to reach."""
_PENDING = 1_000
"""What the C++ client, hence the Python one, keeps pending of a producer by default."""
_MEASURED_PENDING = 100_000
"""Of the measured producers, whose messages wait where a broker does not read their connection."""
_ANSWER_S = 120


@dataclass(frozen=True, slots=True)
class Topics:
    """What is published to."""

    alone: str
    beside: str
    throttled: str


def python_latencies(
    route: Route, topics: Topics, *, warmup_s: int, seconds: int
) -> Mapping[str, list[float]]:
    """Seconds from sending to the receipt, `alone` and `beside`, with pulsar-client.

    :raises RuntimeError: if a message is not stored.
    """
    clients = [_client(route), _client(route)]
    try:
        producers = {
            ALONE: clients[0].create_producer(topics.alone, max_pending_messages=_MEASURED_PENDING),
            BESIDE: clients[1].create_producer(topics.beside, max_pending_messages=_MEASURED_PENDING),
        }
        with _flooding(clients[1].create_producer(topics.throttled)):
            taken_s = _latencies(producers, (warmup_s + seconds) * _PER_S)
        return {which: latencies[warmup_s * _PER_S :] for which, latencies in taken_s.items()}
    finally:
        for client in clients:
            client.shutdown()  # a close would wait for what waits of the throttled one


def _client(route: Route) -> Any:
    return pulsar.Client(route.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))


def _latencies(producers: Mapping[str, Any], count: int) -> Mapping[str, list[float]]:
    taken_s: dict[str, list[float]] = {which: [] for which in producers}
    receipts, value = Receipts(len(producers) * count), bytes(_MESSAGE_BYTES)

    def received(latencies: list[float], sent: float, result: object, message: object) -> None:
        latencies.append(time.perf_counter() - sent)
        receipts(result, message)

    turns = [list(producers.items()), list(producers.items())[::-1]]
    for number in paced(count, _PER_S):
        for which, producer in turns[number % 2]:  # each is the first as often
            producer.send_async(value, partial(received, taken_s[which], time.perf_counter()))
    receipts.wait(_ANSWER_S)
    return taken_s


@contextmanager
def _flooding(producer: Any) -> Iterator[None]:
    """Keep as much pending of a producer as the client's default allows."""
    stop, value = threading.Event(), bytes(_MESSAGE_BYTES)
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


def java_latencies(route: Route, topics: Topics, *, warmup_s: int, seconds: int) -> Mapping[str, list[float]]:
    """The same with the Java client and its batching; a message that times out has that time, 30 s.

    :raises UnavailableError: if there is no Java.
    :raises RuntimeError: if the client fails.
    """
    command: list[str | Path] = [
        *(jars.java(), f"-Dlog4j2.configurationFile={LOGGING}", "-Dsluicegate.log.level=error"),
        *(f"--add-opens={package}=ALL-UNNAMED" for package in OPENED),
        *("-cp", jars.classpath(jars.PULSAR), _PROGRAM, route.url),
        *map(str, (warmup_s, seconds, _PER_S, _OTHER_PER_S)),
        *(topics.alone, topics.beside, topics.throttled),
    ]
    latencies: dict[str, list[float]] = defaultdict(list)
    for line in run_tool(command, warmup_s + seconds + _ANSWER_S).splitlines():
        which, _, taken = line.partition(" ")
        if taken.isdigit():
            latencies[which].append(int(taken) / 1e9)
    return latencies
