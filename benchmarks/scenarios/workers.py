"""Two workers against one: what a message costs at the same load, and how many pass at most.

In front of upstreams that do little.
"""

import json
import os
import resource
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from benchmarks.harness.arms import Bench
from benchmarks.harness.grpc_clients import program
from benchmarks.harness.names import DIRECT, SLUICEGATE, SLUICEGATE_2_WORKERS
from benchmarks.harness.pipelined_clients import READ_HEADER
from benchmarks.harness.processes import run_tool
from benchmarks.harness.procfs import cpu_seconds
from benchmarks.harness.scenario import Scenario
from benchmarks.harness.worker_arms import GRPC, WorkerArm, WorkerArms
from sluicegate.host.children import python_command

_ARMS = (DIRECT, SLUICEGATE, SLUICEGATE_2_WORKERS)
_ROOT = Path(__file__).resolve().parents[2]
_PROCESSES = 2
"""Of clients, and of workers at most."""
_CONNECTIONS = 8
"""Of each, for Kafka and Pulsar: a Kafka client's are one worker's, and the names of few may all fall to the
same. A gRPC channel has one."""
_PATIENCE_S = 120
_PACED_PART = 0.3
"""Of what passes at most through one worker, for each worker; then the machine has room left in every arm."""
_US = 1e6


@dataclass(frozen=True, slots=True)
class _Case:
    """What clients send, and through what."""

    name: str
    system: str
    kind: str
    """Of messages; see `pipelined_clients`."""
    in_flight: int
    policies: Mapping[str, object] = field(default_factory=dict)
    """More of the gateways' policies."""


@dataclass(frozen=True, slots=True)
class _Load:
    """What came of one run of the clients."""

    per_s: float
    cpu_us: Sequence[float]
    """For a message: of the clients, of the upstream, of the gateway if there is one."""

    @property
    def cores(self) -> float:
        """How many all of them used."""
        return sum(self.cpu_us) * self.per_s / _US


def _measure(bench: Bench, name: str, quick: bool, *, case: _Case) -> dict[str, float]:
    """How many messages pass at most, then CPU by process and message at a load with room left.

    A worker that is busier reads more messages at once, so each costs less. Hence the cost of a message is
    comparable where each worker carries the same load: one process of clients for one worker, two for two.
    `same_load_gateway_cpu_us` is that of two processes of clients in every arm, `most_gateway_cpu_us` that of
    as many messages as pass. What a gateway takes without messages is told apart, as `idle_percent_of_core`.

    Where `cores_used` of the arm with one worker comes near the number of cores, the machine has nothing to
    give to a second one: `room_x` is how many times as many messages it could carry at most.
    """
    directory, seconds = bench.directory / case.name, 1.0 if quick else 5.0
    arms = bench.once(case.name, lambda: WorkerArms(bench.stack, directory, case.system, case.policies))
    pace = bench.once(
        f"{case.name}-pace", lambda: _PACED_PART * _run(case, arms.arm(SLUICEGATE), seconds).per_s
    )
    arm = arms.arm(name)
    idle = _idle_cores(arm, seconds)
    most = _run(case, arm, seconds)
    same = paced = _run(case, arm, seconds, pace=pace, idle=idle)
    if name == SLUICEGATE:
        paced = _run(case, arm, seconds, processes=1, pace=pace, idle=idle)
    names = ("clients_cpu_us", "upstream_cpu_us", "gateway_cpu_us")
    of_gateway = {"same_load_gateway_cpu_us": same.cpu_us[-1], "most_gateway_cpu_us": most.cpu_us[-1]}
    return {
        "messages_per_s": most.per_s,
        "cores_used": most.cores,
        "room_x": len(os.sched_getaffinity(0)) / most.cores,
        "paced_per_s": paced.per_s,
        "paced_cores_used": paced.cores,
        **dict(zip(names, paced.cpu_us, strict=False)),
        **(of_gateway if arm.proxy is not None else {}),
        "idle_percent_of_core": 100 * idle,
    }


def _idle_cores(arm: WorkerArm, seconds: float) -> float:
    if arm.proxy is None:
        return 0.0
    before = cpu_seconds(arm.proxy.pid)
    time.sleep(seconds)
    return (cpu_seconds(arm.proxy.pid) - before) / seconds


def _run(
    case: _Case,
    arm: WorkerArm,
    seconds: float,
    *,
    processes: int = _PROCESSES,
    pace: float = 0.0,
    idle: float = 0.0,
) -> _Load:
    """Let the clients send.

    :param processes: of clients.
    :param pace: messages a second of each process; 0 for as many as are answered.
    :param idle: cores that the gateway uses without any; they are not counted.
    """
    trees = [arm.upstream, *([arm.proxy] if arm.proxy else [])]
    before = [cpu_seconds(each.pid) for each in trees]
    children_s, began_s = _children_s(), time.monotonic()
    with ThreadPoolExecutor(processes) as pool:
        commands = [_command(case, arm.address, seconds, pace, number) for number in range(processes)]
        printed = [json.loads(each) for each in pool.map(_printed, commands)]
    used = [sum(each.get("cpu_s", 0.0) for each in printed) or _children_s() - children_s]
    used += [cpu_seconds(each.pid) - then for each, then in zip(trees, before, strict=True)]
    used[-1] -= idle * (time.monotonic() - began_s)
    sent = sum(each["sent"] for each in printed)
    passed_per_s = sum(each["messages"] / each["seconds"] for each in printed)
    return _Load(passed_per_s, [each * _US / sent for each in used])


def _command(case: _Case, address: str, seconds: float, rate: float, number: int) -> Sequence[str | Path]:
    if case.system == GRPC:
        options = {
            "target": address,
            "in-flight": case.in_flight,
            "connections": 1,
            "seconds": seconds,
            "rate": rate,
        }
        return [program("peer"), "publish", *(f"-{option}={value}" for option, value in options.items())]
    arguments = (case.kind, address, _CONNECTIONS, case.in_flight, seconds, rate, f"client-{number}")
    return python_command("benchmarks.harness.pipelined_clients", *map(str, arguments))


def _printed(command: Sequence[str | Path]) -> str:
    return run_tool(command, _PATIENCE_S, {"PYTHONPATH": str(_ROOT)})


def _children_s() -> float:
    """CPU seconds of all children that have ended: of clients that do not tell their own."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _scenario(what: str, case: _Case) -> Scenario:
    summary = f"two workers against one before a stand-in, {what}"
    return Scenario(case.name, summary, _ARMS, partial(_measure, case=case))


SCENARIOS = (
    _scenario(
        "Produce requests of one record, 5 on their way of each client",
        _Case("workers-kafka", "kafka", "kafka", 5),
    ),
    _scenario(
        "messages of 100 B, 1,000 on their way of each client",
        _Case("workers-pulsar", "pulsar", "pulsar", 1_000),
    ),
    _scenario("calls of 1 KiB, 64 on their way of each client", _Case("workers-grpc", GRPC, "", 64)),
    _scenario(
        "Produce requests whose records the gateway reads",
        _Case("workers-reading", "kafka", "kafka-gzip", 2, {"required_headers": READ_HEADER}),
    ),
)
