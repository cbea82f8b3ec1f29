"""What a recorded decision costs, on the path of messages and in all, and how much disk it takes.

The same operations go through compiled gates with each log as their sink, 50,000 at a time; between those the
log's own thread or listener finishes, so that the two do not disturb each other and CPU tells them apart.
"""

import asyncio
import gc
import json
import logging
import logging.handlers
import queue
import random
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import repeat
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median
from typing import Any, Literal, TypeAlias

import orjson

from benchmarks.harness.arms import Bench
from benchmarks.harness.gates import gate_cache
from benchmarks.harness.names import (
    LOG_FULL,
    LOG_LOGGING,
    LOG_ORJSON,
    LOG_QUEUED,
    LOG_REAL,
    LOG_REFUSING,
    LOG_SUMMARY,
)
from benchmarks.harness.scenario import Scenario
from sluicegate.decisions.log import DecisionLog
from sluicegate.decisions.reading import read_decisions
from sluicegate.decisions.spool import parquet_files, spools
from sluicegate.engine.gate import DecisionSink, Gate
from sluicegate.host.children import python_command
from sluicegate.model import Action, Decision, Operation, OperationKind
from sluicegate.processes import collecting
from sluicegate.processes.in_process import EmbeddedGateway
from sluicegate.testing import NullSink

_DECISIONS, _QUICK_DECISIONS = 1_000_000, 100_000
"""1,000,000 are what a gate with some 3,000 decisions a second writes before its file becomes Parquet."""
_AT_ONCE = 50_000
_STEP_NS = 20_000
_POLICIES = {"max_message_size": 64 * 1024, "max_publish_rate": 2**31, "max_publish_rate_bytes": 2**31}
_TOO_LARGE = 2**20
_TOPICS, _CLIENTS, _PRINCIPALS = 16, 64, 8
_REAL_MESSAGES, _QUICK_MESSAGES = 100_000, 2_000
_PRODUCERS = 8
_PATIENCE_S = 60

Decide: TypeAlias = tuple[Callable[[Operation, int], object], Operation]


@dataclass(slots=True)
class _Log:
    """One way of recording, as the measurement sees it."""

    sink: DecisionSink
    waits: Callable[[], bool]
    """Whether anything waits to be written."""
    close: Callable[[], object]


class _Clock:
    """A time that goes on by 20 us with each decision."""

    def __init__(self) -> None:
        self.now_ns = time.monotonic_ns()

    def __call__(self) -> int:
        return self.now_ns


def _measure(bench: Bench, arm: str, quick: bool) -> dict[str, float]:
    directory = bench.directory / f"decisions-{arm}"
    try:
        if arm == LOG_REAL:
            return _real(directory, _QUICK_MESSAGES if quick else _REAL_MESSAGES)
        return _recorded(directory, arm, _QUICK_DECISIONS if quick else _DECISIONS)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _recorded(directory: Path, arm: str, decisions: int) -> dict[str, float]:
    refusals = 10 if arm == LOG_REFUSING else 0
    clock = _Clock()
    with _MAKERS[arm](directory, clock) as log:
        without = _operations(NullSink(), refusals)
        within = _operations(log.sink, refusals)
        with _garbage_as_in_a_worker():
            relay_s, writer_s = _timed(log, without, within, decisions // _AT_ONCE, clock)
        closing, own = time.process_time(), time.thread_time()
        log.close()
        writer_s += time.process_time() - closing - (time.thread_time() - own)
    spooled = sum(path.stat().st_size for path in spools(directory))
    parquet_s = _compact(directory) if spooled else 0.0
    files = [path for path in directory.rglob("*") if path.is_file()]
    values = {
        "relay_ns": relay_s / decisions * 1e9,
        "writer_ns": writer_s / decisions * 1e9,
        "parquet_ns": parquet_s / decisions * 1e9,
        "all_ns": (relay_s + writer_s + parquet_s) / decisions * 1e9,
        "disk_bytes": sum(path.stat().st_size for path in files) / decisions,
    }
    if spooled:
        values["spool_bytes"] = spooled / decisions
        written = sum(read_decisions(directory).column("decisions").to_pylist())
        if written != decisions:
            raise RuntimeError(f"{written:,} of {decisions:,} decisions are in the log")
    return values


@contextmanager
def _garbage_as_in_a_worker() -> Iterator[None]:
    """What a worker does once it has started: queued rows are not garbage, so they are rarely scanned."""
    before = gc.get_threshold()
    collecting.begin()
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def _timed(
    log: _Log, without: Sequence[Decide], within: Sequence[Decide], rounds: int, clock: _Clock
) -> tuple[float, float]:
    """CPU seconds that the log adds in this thread (median round times rounds), and those of all others."""
    added, beside = [], 0.0
    for _ in repeat(None, rounds):
        base = _decide(without, clock.now_ns)
        all_began, own_began = time.process_time(), time.thread_time()
        added.append(_decide(within, clock.now_ns) - base)
        clock.now_ns += (_AT_ONCE + 1) * _STEP_NS + 1_000_000_000  # so that the windows have ended
        _await_writer(log)
        beside += time.process_time() - all_began - (time.thread_time() - own_began)
    return median(added) * rounds, beside


def _decide(asked: Sequence[Decide], now_ns: int) -> float:
    """CPU seconds of this thread for all of these."""
    began = time.thread_time()
    for decide, op in asked:
        now_ns += _STEP_NS
        decide(op, now_ns)
    return time.thread_time() - began


def _await_writer(log: _Log) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while log.waits():
        if time.monotonic() > deadline:
            raise RuntimeError("the log did not write out what it was given")
        time.sleep(0.01)


def _operations(sink: DecisionSink, refusals: int) -> Sequence[Decide]:
    """Publishes of 64 clients to 16 topics in random order, with sizes as messages have; some too large."""
    rng = random.Random(1)
    cache = gate_cache(_POLICIES, sink)
    clients = [
        Operation(
            OperationKind.PUBLISH,
            f"shop.orders-{number % _TOPICS}",
            principal=f"User:service-{number % _PRINCIPALS}",
            client=f"client-{number}@10.0.0.{number}:{40_000 + number}",
            producer=f"producer-{number}",
            messages=1,
        )
        for number in range(_CLIENTS)
    ]
    asked = []
    for number in range(_AT_ONCE):
        like = rng.choice(clients)
        size = (
            _TOO_LARGE
            if refusals and number % refusals == 0
            else min(int(rng.lognormvariate(6.9, 0.8)), 60_000)
        )
        op = replace(like, bytes=size, largest=size)
        asked.append((cache.get(like.topic, False, 0).publish, op))
    return asked


def _compact(directory: Path) -> float:
    """CPU seconds of the process that makes Parquet, its start included."""
    before = getrusage(RUSAGE_CHILDREN)
    subprocess.run(
        python_command("sluicegate.decisions.tidying", str(directory), "0", "0"),
        check=True,
        timeout=300,
    )
    after = getrusage(RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


# -- the ways of recording ------------------------------------------------------------------------


def _decision_log(detail: Literal["summary", "full"]) -> "_Maker":
    @contextmanager
    def make(directory: Path, clock: _Clock) -> Iterator[_Log]:
        log = DecisionLog(directory, "kafka", "main", detail, monotonic=clock, compacting=False)
        try:
            yield _Log(log, lambda: log.stats().queued > 0, log.close)
        finally:
            log.close()
        if log.stats().dropped:
            raise RuntimeError(f"{log.stats().dropped:,} decisions were dropped")

    return make


def _row(gate: Gate, op: Operation, now_ns: int) -> dict[str, Any]:
    """An allow as a row of the decision log tells it."""
    return {
        "time": now_ns // 1_000,
        "run": "20261121T104022Z-k3x9qa",
        "system": "kafka",
        "door": "proxy",
        "gateway": "main",
        "principal": op.principal,
        "client": op.client,
        "namespace": gate.topic.namespace,
        "topic": op.topic,
        "operation": "publish",
        "action": "allow",
        "bytes": op.bytes,
        "messages": op.messages,
        "policy_version": gate.version,
    }


class _Lines:
    """A sink that gives each allow to a function at once."""

    def __init__(self, write: Callable[[dict[str, Any]], object]) -> None:
        self._write = write

    def allowed(self, gate: Gate, op: Operation, now_ns: int) -> None:
        """Write a line."""
        self._write(_row(gate, op, now_ns))

    def decided(self, gate: Gate, op: Operation, decision: Decision, now_ns: int) -> Decision:
        """Nothing is refused here."""
        raise AssertionError(f"{Action(decision.action)} was not expected")


@contextmanager
def _orjson(directory: Path, _clock: _Clock) -> Iterator[_Log]:
    directory.mkdir(parents=True)
    with (directory / "rows.jsonl").open("wb") as file:
        sink = _Lines(lambda row: file.write(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)))
        yield _Log(sink, lambda: False, file.flush)


def _logger(handler: logging.Handler) -> logging.Logger:
    logger = logging.Logger("rows", logging.INFO)
    logger.addHandler(handler)
    return logger


@contextmanager
def _logging(directory: Path, _clock: _Clock) -> Iterator[_Log]:
    directory.mkdir(parents=True)
    handler = logging.FileHandler(directory / "rows.log")
    try:
        logger = _logger(handler)
        yield _Log(_Lines(lambda row: logger.info(json.dumps(row))), lambda: False, handler.flush)
    finally:
        handler.close()


@contextmanager
def _queued_logging(directory: Path, _clock: _Clock) -> Iterator[_Log]:
    """What the standard library has for programs that must not wait: a queue, and a thread that writes."""
    directory.mkdir(parents=True)
    waiting: queue.SimpleQueue[Any] = queue.SimpleQueue()
    handler = logging.FileHandler(directory / "rows.log")
    handler.setFormatter(_JsonFormatter())
    handed = logging.handlers.QueueHandler(waiting)
    handed.prepare = lambda record: record  # type: ignore[method-assign]  # the listener formats, not the relay
    listener = logging.handlers.QueueListener(waiting, handler)
    logger = _logger(handed)
    try:
        # The listener starts when the relay is done: it is to be timed by itself.
        yield _Log(_Lines(logger.info), lambda: _drained(listener, waiting), handler.flush)
    finally:
        handler.close()


def _drained(listener: logging.handlers.QueueListener, waiting: "queue.SimpleQueue[Any]") -> bool:
    if not waiting.empty():
        listener.start()
        listener.stop()
    return False


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """The row as a line of JSON."""
        return json.dumps(record.msg)


_Maker: TypeAlias = Callable[[Path, _Clock], Any]
_MAKERS: dict[str, _Maker] = {
    LOG_FULL: _decision_log("full"),
    LOG_SUMMARY: _decision_log("summary"),
    LOG_REFUSING: _decision_log("full"),
    LOG_ORJSON: _orjson,
    LOG_LOGGING: _logging,
    LOG_QUEUED: _queued_logging,
}


# -- a gate's own log -----------------------------------------------------------------------------

_REAL_FILE = """brokers:
- {{name: main, system: kafka, bootstrap: [{nodes}], listen: {{port: 0}}, node_port_base: 39292}}
state_dir: {directory}
decisions: {{detail: full}}
policies:
  broker: {{max_message_size: 8KiB, max_publish_rate: 1000000000/s}}
"""


def _real(directory: Path, messages: int) -> dict[str, float]:
    """What a real gate in front of a stand-in for Kafka writes of eight producers, one message a request."""
    directory.mkdir(parents=True)
    refused = asyncio.run(_serve(directory, messages))
    rows = read_decisions(directory / "decisions")
    actions = rows.column("action").to_pylist()
    if actions.count("reject") != refused:
        raise RuntimeError(f"{refused} messages were refused, {actions.count('reject')} are in the log")
    size = sum(path.stat().st_size for path in parquet_files(directory / "decisions"))
    return {"disk_bytes": size / len(rows), "decisions": float(len(rows)), "refused": float(refused)}


async def _serve(directory: Path, messages: int) -> int:
    from sluicegate_kafka.demo.mock_cluster import mock_cluster

    async with mock_cluster() as nodes:
        file = directory / "gateway.yaml"
        file.write_text(
            _REAL_FILE.format(nodes=", ".join(f'"{node}"' for node in nodes), directory=directory)
        )
        logging.getLogger("sluicegate").setLevel(logging.ERROR)
        gateway = EmbeddedGateway.from_file(file, environ={})
        async with gateway:
            host, port = gateway.address("main")
            ask = asyncio.get_running_loop().run_in_executor
            # Threads of their own: the loop's serve the gate too.
            with ThreadPoolExecutor(_PRODUCERS) as threads:
                share = messages // _PRODUCERS
                asked = [ask(threads, _produce, f"{host}:{port}", n, share) for n in range(_PRODUCERS)]
                return sum(await asyncio.gather(*asked))


def _produce(bootstrap: str, number: int, messages: int) -> int:
    """Send one message in each request; gives the number of those refused as too large."""
    from confluent_kafka import KafkaError, Producer

    rng = random.Random(number)
    refused = 0

    def delivered(error: KafkaError | None, _message: object) -> None:
        nonlocal refused
        if error is not None:
            if error.code() != KafkaError.MSG_SIZE_TOO_LARGE:
                raise RuntimeError(f"not sent: {error}")
            refused += 1

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": f"service-{number}",
            "batch.num.messages": 1,
            "linger.ms": 0,
            "log_level": 3,
        }
    )
    for _ in repeat(None, messages):
        size = 10_000 if rng.random() < 0.02 else min(int(rng.lognormvariate(6.0, 0.8)), 8_000)
        while True:
            try:
                producer.produce(f"shop.orders-{rng.randrange(6)}", bytes(size), on_delivery=delivered)
                break
            except BufferError:
                # librdkafka's queue is full: only answers make room in it.
                producer.poll(0.1)
        producer.poll(0)
    if producer.flush(_PATIENCE_S):
        raise RuntimeError("not all messages were answered")
    return refused


SCENARIOS = (
    Scenario(
        "decision-log",
        "cost of a recorded decision on the path of messages and in all, and its bytes on disk",
        (LOG_FULL, LOG_SUMMARY, LOG_REFUSING, LOG_QUEUED, LOG_LOGGING, LOG_ORJSON, LOG_REAL),
        _measure,
        rounds=3,
        cold_round=False,
    ),
)
