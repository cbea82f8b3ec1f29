"""1,000 clients publish while commands change policies: until these are in force, and answers by a mix."""

import asyncio
import json
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import uvloop

from benchmarks.harness.arms import Bench
from benchmarks.harness.brokers import start_stand_in
from benchmarks.harness.kafka_long_bytes import batch, produce, record
from benchmarks.harness.kafka_produced import refused_topics
from benchmarks.harness.names import SLUICEGATE
from benchmarks.harness.open_clients import Turns
from benchmarks.harness.proxies import Gate
from benchmarks.harness.samples import percentile
from benchmarks.harness.scenario import Scenario

_CLIENTS, _QUICK_CLIENTS = 1_000, 100
_CHANGES, _QUICK_CHANGES = 1_000, 20
_BROKEN_EVERY = 5
_AT_ONCE = 16
_PATIENCE_S = 60.0
_TOPICS = ("even", "odd")
_MESSAGE_BYTES, _SMALLER, _LARGER = 300, "200B", "1kB"


class _Changes:
    """Commands that change the limits of two topics at once, so that each version refuses one of the two.

    :param gate: with clients whose requests are for both topics.
    :param streak: how many answers in a row show that each client is answered by the new policies.
    """

    def __init__(self, gate: Gate, document: Path, streak: int) -> None:
        self._gate = gate
        self._document = document
        self._streak = streak
        self._refused = ""
        """The topic that the policies in force refuse; empty while they change."""
        self._next = ""
        self._alike = 0
        """Answers in a row by the next policies."""
        self._since = 0.0
        """When the first of these came."""
        self._is_in_force = asyncio.Event()
        self.mixed = 0
        """Answers by which both topics were refused, or none."""
        self.others = 0
        """Answers by other policies than those in force."""

    def seen(self, answer: bytes, _took_ms: float) -> None:
        """Look by which policies a request was answered."""
        refused = refused_topics(answer)
        self.mixed += len(refused) != 1
        if self._refused:
            self.others += self._refused not in refused
        elif self._next not in refused:
            self._alike = 0
        else:
            self._alike += 1
            if self._alike == 1:
                self._since = time.perf_counter()
            elif self._alike == self._streak:
                self._is_in_force.set()

    async def change(self, number: int) -> float:
        """Change them by a command.

        :return: ms from the start of the command until no client was answered by the old policies.
        """
        self._next, self._refused, self._alike = _TOPICS[number % 2], "", 0
        self._is_in_force.clear()
        began = time.perf_counter()
        await self._command(_SMALLER, 0)
        await asyncio.wait_for(self._is_in_force.wait(), _PATIENCE_S)
        self._refused = self._next
        return (self._since - began) * 1000

    async def fail(self, number: int) -> None:
        """Try a change of which a part is broken."""
        self._next = _TOPICS[number % 2]
        await self._command("many", 1)

    async def _command(self, limit: str, expected: int) -> None:
        """Limit the next topic, and no longer the other."""
        limits = {name: limit if name == self._next else _LARGER for name in _TOPICS}
        topics = [{"name": name, "max_message_size": size} for name, size in limits.items()]
        self._document.write_text(json.dumps({"policies": {"topics": topics}}))
        program = Path(sys.executable).with_name("sluicegate")
        arguments = ("policies", "apply", self._document, "-c", self._gate.file, "--reason", "benchmark")
        process = await asyncio.create_subprocess_exec(
            program, *arguments, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
        )
        _, errors = await process.communicate()
        if process.returncode != expected:
            raise RuntimeError(f"the command ends with {process.returncode}: {errors.decode()}")


async def _measured(gate: Gate, document: Path, clients: int, count: int) -> dict[str, float]:
    changes = _Changes(gate, document, clients + _AT_ONCE)
    load = Turns(changes.seen)
    message = batch(record(_MESSAGE_BYTES), 1)
    await load.open(gate.address, [produce({name: {0: message} for name in _TOPICS})] * clients)
    load.begin(_AT_ONCE)
    began, times_ms = time.monotonic(), [await changes.change(0)]
    changes.mixed = 0  # before it there was no policy
    for number in range(1, count + 1):
        if number % _BROKEN_EVERY == 0:
            await changes.fail(number)
        else:
            times_ms.append(await changes.change(len(times_ms)))
    took_s = time.monotonic() - began
    return {
        "in_force_p50_ms": percentile(times_ms, 0.5),
        "in_force_p95_ms": percentile(times_ms, 0.95),
        "in_force_max_ms": max(times_ms),
        "dropped": float(await load.end()),
        "mixed": float(changes.mixed),
        "by_others": float(changes.others),
        "changes": float(count),
        "requests": float(load.answers),
        "requests_per_s": load.answers / took_s,
    }


def _changes_under_load(bench: Bench, _name: str, quick: bool) -> dict[str, float]:
    clients, count = (_QUICK_CLIENTS, _QUICK_CHANGES) if quick else (_CLIENTS, _CHANGES)
    directory = Path(tempfile.mkdtemp(dir=bench.directory, prefix="changes-"))
    with ExitStack() as stack:
        upstream = start_stand_in(stack, directory)
        gate = Gate(stack, directory / "gate", "kafka", [upstream], {}).wait()
        return uvloop.run(_measured(gate, directory / "document.json", clients, count))


SCENARIOS = (
    Scenario(
        "changes-under-load",
        "1,000 changes by command, a fifth of them broken, while 1,000 clients publish: until in force",
        (SLUICEGATE,),
        _changes_under_load,
        rounds=1,
        cold_round=False,
    ),
)
