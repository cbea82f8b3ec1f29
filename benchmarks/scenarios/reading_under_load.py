"""What reading the admin API and metrics adds to the latency of 1,000 clients that publish all the time."""

import asyncio
import signal
import tempfile
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import uvloop

from benchmarks.harness import procfs
from benchmarks.harness.arms import Bench
from benchmarks.harness.brokers import start_stand_in
from benchmarks.harness.kafka_long_bytes import batch, produce, record
from benchmarks.harness.names import SLUICEGATE
from benchmarks.harness.open_clients import Turns
from benchmarks.harness.processes import Child, start_module
from benchmarks.harness.proxies import Gate
from benchmarks.harness.samples import mid, percentile
from benchmarks.harness.scenario import Scenario
from sluicegate.admin import EFFECTIVE_POLICIES

_CLIENTS, _QUICK_CLIENTS = 1_000, 100
_TURNS, _QUICK_TURNS = 12, 2
"""Pairs of a time with readers and one without."""
_TURN_S, _QUICK_TURN_S = 8.0, 2.0
_AT_ONCE = 16
_HALF = 0.5
_SETTLES_S = 1.0
_MESSAGE_BYTES = 100
_START_S = 60
_POLICIES = {
    "max_message_size": "1MiB",
    "max_publish_rate": 1_000_000,
    "max_producers_per_topic": 1_000,
}
_PATHS = ("/metrics", "/api/v1/topics?limit=100", f"{EFFECTIVE_POLICIES}?topic=team-1.topic-1")


class _Reading:
    """Publishing that goes on, beside a program that reads by turns.

    :param reader: the program.
    :param worker: the process of the gate that relays.
    :param turn_s: length of a turn.
    """

    def __init__(self, reader: Child, worker: int, turn_s: float) -> None:
        self._reader = reader
        self._worker = worker
        self._turn_s = turn_s
        self._times_ms: list[float] = []

    def seen(self, _answer: bytes, took_ms: float) -> None:
        """An answer came."""
        self._times_ms.append(took_ms)

    async def turn(self, *, is_read: bool) -> dict[str, float]:
        """Latencies and speed while the program reads, or stands still."""
        self._reader.send_signal(signal.SIGCONT if is_read else signal.SIGSTOP)
        await asyncio.sleep(_SETTLES_S)
        self._times_ms.clear()
        cpu_ns = procfs.thread_cpu_ns(self._worker)
        await asyncio.sleep(self._turn_s)
        times_ms, cpu_ns = self._times_ms, procfs.thread_cpu_ns(self._worker) - cpu_ns
        return {
            "p50_ms": percentile(times_ms, 0.5),
            "p99_ms": percentile(times_ms, 0.99),
            "requests_per_s": len(times_ms) / self._turn_s,
            "relay_cpu_us": cpu_ns / 1000 / len(times_ms),
        }


async def _measured(
    gate: Gate, reader: Child, share: float, clients: int, turns: int, turn_s: float
) -> dict[str, float]:
    reading = _Reading(reader, procfs.worker(gate.child.pid), turn_s)
    load = Turns(reading.seen)
    message = batch(record(_MESSAGE_BYTES), 1)
    requests = [produce({f"team-{number % 100}.topic-{number}": {0: message}}) for number in range(clients)]
    await load.open(gate.address, requests)
    load.begin(_AT_ONCE)
    most_per_s = (await reading.turn(is_read=False))["requests_per_s"]
    pairs = []
    async with asyncio.TaskGroup() as group:
        pacing = [group.create_task(load.keep_pace(share * most_per_s))] if share < 1 else []
        for number in range(turns):
            order = (True, False) if number % 2 else (False, True)
            pairs.append({is_read: await reading.turn(is_read=is_read) for is_read in order})
        for task in pacing:
            task.cancel()
    reader.send_signal(signal.SIGCONT)  # so that it can be ended
    values = {"lost": float(await load.end())}
    for what in ("p50_ms", "p99_ms", "requests_per_s", "relay_cpu_us"):
        without, beside = ([pair[is_read][what] for pair in pairs] for is_read in (False, True))
        both = list(zip(beside, without, strict=True))
        values[what], values[f"read_{what}"] = mid(without), mid(beside)
        values[f"{what}_ratio"] = mid(read / quiet for read, quiet in both)
        if what == "p99_ms":
            values["read_adds_ms"] = mid(read - quiet for read, quiet in both)
    return values


def _reading_under_load(share: float, bench: Bench, _name: str, quick: bool) -> dict[str, float]:
    clients, turns = (_QUICK_CLIENTS, _QUICK_TURNS) if quick else (_CLIENTS, _TURNS)
    directory = Path(tempfile.mkdtemp(dir=bench.directory, prefix="reading-"))
    with ExitStack() as stack:
        upstream = start_stand_in(stack, directory)
        gate = Gate(stack, directory / "gate", "kafka", [upstream], {"broker": _POLICIES}).wait()
        reader = start_module(stack, directory, "admin_asking", str(gate.note), *_PATHS)
        reader.wait_for("standing", _START_S)
        turn_s = _QUICK_TURN_S if quick else _TURN_S
        return uvloop.run(_measured(gate, reader, share, clients, turns, turn_s))


SCENARIOS = (
    Scenario(
        "reading-under-load",
        "what reading metrics and admin API once a second adds to 1,000 clients' p99, by turns",
        (SLUICEGATE,),
        partial(_reading_under_load, 1.0),
        rounds=3,
        cold_round=False,
    ),
    Scenario(
        "reading-half-load",
        "the same with half as many requests each second as there may be",
        (SLUICEGATE,),
        partial(_reading_under_load, _HALF),
        rounds=3,
        cold_round=False,
    ),
)
