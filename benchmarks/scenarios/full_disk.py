"""A gate whose state directory is on a full volume: log lines, counters, and recovery."""

import asyncio
import random
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import count
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer

from benchmarks.harness.arms import Bench
from benchmarks.harness.names import SLUICEGATE
from benchmarks.harness.proxies import Gate
from benchmarks.harness.scenario import Scenario
from benchmarks.harness.volumes import MIB, Filler, mount_volume
from sluicegate.decisions.reading import read_decisions
from sluicegate.decisions.spool import parquet_files, spools

_VOLUME = 16 * MIB
_FULL_S, _BACK_S = 25, 40
"""How long the volume is full, and how long the gate may take to write again: its longest wait is 30 s."""
_PAUSE_S = 0.005
_LIMIT = 8_192
_LOG = "sluicegate_decision_log_"
_rounds = count()


def _full_disk(bench: Bench, _name: str, quick: bool) -> dict[str, float]:
    directory = bench.directory / f"full-disk-{next(_rounds)}"
    with ExitStack() as stack:
        return asyncio.run(_measure(stack, directory, 5 if quick else _FULL_S))


async def _measure(stack: ExitStack, directory: Path, full_s: float) -> dict[str, float]:
    from sluicegate_kafka.demo.mock_cluster import mock_cluster

    state = mount_volume(stack, directory / "state", _VOLUME)
    async with mock_cluster() as nodes:
        gate = Gate(stack, directory, "kafka", nodes, {"broker": {"max_message_size": _LIMIT}})
        await asyncio.to_thread(gate.wait)
        with ThreadPoolExecutor(1) as thread:
            load = _Load(gate.address)
            sending = asyncio.get_running_loop().run_in_executor(thread, load.run)
            try:
                await asyncio.sleep(3)
                filler, lines = Filler(state), _lines(gate)
                await asyncio.to_thread(filler.keep, 0, time.monotonic() + full_s)
                while_full = _lines(gate) - lines
                filler.leave(_VOLUME)
                back_s = await asyncio.to_thread(_back, gate)
                await asyncio.sleep(2)
            finally:
                load.is_over = True
                await sending
        counters = await asyncio.to_thread(_settled, gate)
        await asyncio.to_thread(gate.child.stop)
    rows = sum(row["decisions"] for row in read_decisions(state / "decisions").to_pylist())
    if rows != counters["emitted"]:
        raise RuntimeError(f"{counters['emitted']:.0f} decisions are said to be written, {rows} can be read")
    if load.failed:
        raise RuntimeError(f"{load.failed} messages of legal size failed")
    return {
        "lines_while_full": float(while_full),
        "back_s": back_s,
        "decided": counters["decided"],
        "dropped": counters["dropped"],
        "uncounted": counters["decided"] - counters["emitted"] - counters["dropped"],
        "refused": float(load.refused),
        "journal_lost": counters["journal_lost"],
        "files_left": float(len(parquet_files(state / "decisions")) + len(spools(state / "decisions"))),
    }


class _Load:
    """A producer of single messages, half of which are too large."""

    def __init__(self, bootstrap: str) -> None:
        self.is_over = False
        self.refused = self.failed = 0
        settings = {"bootstrap.servers": bootstrap, "batch.num.messages": 1, "linger.ms": 0, "log_level": 3}
        self._producer = Producer(settings)

    def run(self) -> None:
        """Send until `is_over` is set, and wait for all answers."""
        rng = random.Random(0)
        while not self.is_over:
            size = rng.choice((100, 2 * _LIMIT))
            self._producer.produce("orders", bytes(size), on_delivery=self._delivered)
            self._producer.poll(_PAUSE_S)
        self._producer.flush(60)

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self.refused += 1
            self.failed += error.code() not in (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.POLICY_VIOLATION)


def _lines(gate: Gate) -> int:
    return len(gate.log.splitlines())


def _back(gate: Gate) -> float:
    """Seconds until decision log and journal are written again.

    :raises RuntimeError: if they are not in time.
    """
    since = time.monotonic()
    while time.monotonic() - since < _BACK_S:
        text = gate.log
        if "decision log is writable again" in text and "refusals.db is writable again" in text:
            return time.monotonic() - since
        time.sleep(0.1)
    raise RuntimeError(f"log and journal were not written again within {_BACK_S} s")


def _settled(gate: Gate) -> dict[str, float]:
    """Counters of the decision log once nothing is queued."""
    counters: dict[str, float] = {"queued": 1.0}
    deadline = time.monotonic() + 30
    before: dict[str, float] = {}
    while (counters["queued"] or counters != before) and time.monotonic() < deadline:
        time.sleep(2)  # longer than between two reports of the worker
        before, counters = counters, _counters(gate)
    return counters


def _counters(gate: Gate) -> dict[str, float]:
    samples = gate.metrics().items()
    return {
        name[len(_LOG) :].removesuffix("_total"): value for name, value in samples if name.startswith(_LOG)
    }


SCENARIOS = (
    Scenario(
        "full-disk",
        "lines, lost rows and the way back of a gate whose volume is full for 25 s",
        (SLUICEGATE,),
        _full_disk,
        rounds=1,
        cold_round=False,
    ),
)
