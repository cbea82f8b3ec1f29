"""20,000 topic policies under a ceiling: what commands, a start, a reload and a look-up of a gate take."""

import json
import resource
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.harness.arms import Bench
from benchmarks.harness.gates import gate_cache
from benchmarks.harness.names import SLUICEGATE
from benchmarks.harness.processes import free_port
from benchmarks.harness.proxies import Gate
from benchmarks.harness.scenario import Scenario
from sluicegate.config.models import BrokerConfig
from sluicegate.engine.gates import BYTES_PER_GATE
from sluicegate.testing import NullSink

_TOPICS, _QUICK_TOPICS = 20_000, 1_000
_LONGEST_S = 300
_LIMITS = {"max_message_size": 4 * 2**20, "max_publish_rate": 2_000_000_000, "max_producers_per_topic": 1_000}


def _many_policies(bench: Bench, _name: str, quick: bool) -> dict[str, float]:
    count = _QUICK_TOPICS if quick else _TOPICS
    directory = bench.directory / "many-policies"
    with ExitStack() as stack:
        nowhere, log = f"127.0.0.1:{free_port()}", {"format": "json", "repeats": 0}
        began = time.monotonic()
        gate = Gate(stack, directory, "kafka", [nowhere], _policies(count), log=log).wait()
        ready_s, start_cpu_s = time.monotonic() - began, gate.child.cpu_seconds()
        reloaded = datetime.now(UTC)
        gate.write(_policies(count, last=123))
        gate.child.wait_until(lambda: _applied(gate) is not None, "did not apply the change", _LONGEST_S)
        applied = _applied(gate)
        assert applied is not None
        reload_cpu_s = gate.child.cpu_seconds() - start_cpu_s
        asked_cpu_s = _explain_cpu_s(directory, "gateway")
        stack.close()  # ends the gateway: from here on, the file is read
        return {
            "ready_s": ready_s,
            "start_cpu_s": start_cpu_s,
            "reload_s": (applied - reloaded).total_seconds(),
            "reload_cpu_s": reload_cpu_s,
            "help_cpu_s": _command_cpu_s("--help"),
            "check_cpu_s": _command_cpu_s("check", str(directory / "gateway.yaml")),
            "explain_cpu_s": asked_cpu_s,
            "explain_file_cpu_s": _explain_cpu_s(directory, "file"),
            "lookup_us": _lookup_us(count),
        }


def _policies(count: int, last: int = 0) -> Mapping[str, object]:
    rates = [*range(1, count), last or count]
    topics = [{"name": f"t.{number}", "max_publish_rate": rate} for number, rate in enumerate(rates)]
    return {"broker": {"ceiling": {"max_publish_rate": count}}, "topics": topics}


def _applied(gate: Gate) -> datetime | None:
    """When the worker put the change into force, by its own log."""
    lines = (json.loads(line) for line in gate.log.splitlines() if line.startswith("{"))
    return next((datetime.fromisoformat(line["time"]) for line in lines if "to_version" in line), None)


def _explain_cpu_s(directory: Path, origin: str) -> float:
    """CPU time of `explain`.

    :param origin: `gateway` or `file`: where its answer must come from.
    """
    arguments = ("explain", "--json", "-c", str(directory / "gateway.yaml"), "t.77")
    cpu_s, printed = _command(*arguments)
    assert json.loads(printed)["origin"]["from"] == origin
    return cpu_s


def _command_cpu_s(*arguments: str) -> float:
    """CPU time of a command, with the start of the interpreter."""
    return _command(*arguments)[0]


def _command(*arguments: str) -> tuple[float, str]:
    """CPU time of a command, with the start of the interpreter, and what it prints."""
    program = Path(sys.executable).with_name("sluicegate")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [program, *arguments], check=True, capture_output=True, text=True, timeout=_LONGEST_S
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def _lookup_us(count: int) -> float:
    """A look-up of the gates of all topics in turn, each of which was used before."""
    cache = gate_cache(_LIMITS, NullSink())
    cache.max_gates = BrokerConfig.model_fields["gate_memory"].default // BYTES_PER_GATE
    topics = [f"t.{number}" for number in range(count)]
    for topic in topics:
        cache.get(topic, False, 0)
    began = time.process_time_ns()
    for topic in topics:
        cache.get(topic, False, 0)
    return (time.process_time_ns() - began) / count / 1000


SCENARIOS = (
    Scenario(
        "many-policies",
        "20,000 topic policies under a ceiling: check, explain, start, reload, look-ups of gates",
        (SLUICEGATE,),
        _many_policies,
        rounds=1,
        cold_round=False,
    ),
)
