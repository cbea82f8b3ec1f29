"""Two workers against one: what a message costs, and how many pass, in front of upstreams that do little."""

import json
import os
import resource
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from benchmarks.harness.arms import Bench
from benchmarks.harness.grpc_clients import program
from benchmarks.harness.names import DIRECT, SLUICEGATE, SLUICEGATE_2_WORKERS
from benchmarks.harness.processes import run_tool
from benchmarks.harness.procfs import cpu_seconds
from benchmarks.harness.scenario import Scenario
from benchmarks.harness.worker_arms import GRPC, WorkerArms
from sluicegate.host.children import python_command

_ARMS = (DIRECT, SLUICEGATE, SLUICEGATE_2_WORKERS)
_ROOT = Path(__file__).resolve().parents[2]
_PROCESSES = 2
"""Of clients."""
_CONNECTIONS = 8
"""Of each: a Kafka client's are one worker's, and the names of few may all fall to the same."""
_PATIENCE_S = 120
_US = 1e6


def _measure(bench: Bench, name: str, quick: bool, *, system: str, in_flight: int) -> dict[str, float]:
    """CPU by process and message, and what the machine had left.

    Where `cores_used` of the arm with one worker comes near the number of cores, the machine has nothing to
    give to a second one: `room_x` is how many times as many messages it could carry at most.
    """
    arms = bench.once(
        f"workers-{system}", lambda: WorkerArms(bench.stack, bench.directory / f"workers-{system}", system)
    )
    arm, seconds = arms.arm(name), 1.0 if quick else 5.0
    trees = [arm.upstream, *([arm.proxy] if arm.proxy else [])]
    before = [cpu_seconds(each.pid) for each in trees]
    children_s = _children_s()
    with ThreadPoolExecutor(_PROCESSES) as pool:
        commands = (_command(system, arm.address, in_flight, seconds, number) for number in range(_PROCESSES))
        printed = [json.loads(each) for each in pool.map(_run, commands)]
    used = [sum(each.get("cpu_s", 0.0) for each in printed) or _children_s() - children_s]
    used += [cpu_seconds(each.pid) - then for each, then in zip(trees, before, strict=True)]
    sent = sum(each["sent"] for each in printed)
    per_s = sum(each["messages"] / each["seconds"] for each in printed)
    of_each = [seconds_ * _US / sent for seconds_ in used]
    cores = sum(of_each) * per_s / _US
    names = ("clients_cpu_us", "upstream_cpu_us", "gateway_cpu_us")
    return {
        "messages_per_s": per_s,
        **dict(zip(names, of_each, strict=False)),
        "cores_used": cores,
        "room_x": len(os.sched_getaffinity(0)) / cores,
    }


def _command(system: str, address: str, in_flight: int, seconds: float, number: int) -> Sequence[str | Path]:
    if system == GRPC:
        options = {"target": address, "in-flight": in_flight, "connections": 2, "seconds": seconds}
        return [program("peer"), "publish", *(f"-{option}={value}" for option, value in options.items())]
    arguments = (system, address, _CONNECTIONS, in_flight, seconds, f"client-{number}")
    return python_command("benchmarks.harness.pipelined_clients", *map(str, arguments))


def _run(command: Sequence[str | Path]) -> str:
    return run_tool(command, _PATIENCE_S, {"PYTHONPATH": str(_ROOT)})


def _children_s() -> float:
    """CPU seconds of all children that have ended: of clients that do not tell their own."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _scenario(name: str, what: str, system: str, in_flight: int) -> Scenario:
    summary = f"two workers against one before a stand-in, {what}"
    return Scenario(name, summary, _ARMS, partial(_measure, system=system, in_flight=in_flight))


SCENARIOS = (
    _scenario("workers-kafka", "Produce requests of one record, 5 on their way of each client", "kafka", 5),
    _scenario("workers-pulsar", "messages of 100 B, 1,000 on their way of each client", "pulsar", 1_000),
    _scenario("workers-grpc", "calls of 1 KiB, 64 on their way of each client", GRPC, 64),
)
