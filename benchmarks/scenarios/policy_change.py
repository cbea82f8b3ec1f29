"""Ten gateways with their policies in one etcd: how long a change takes until each of them applies it."""

import json
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from benchmarks.harness.arms import Bench
from benchmarks.harness.etcd import Etcd, why_no_etcd
from benchmarks.harness.names import SLUICEGATE
from benchmarks.harness.processes import UnavailableError, free_port
from benchmarks.harness.proxies import Gate
from benchmarks.harness.scenario import Scenario
from sluicegate.model import Level
from sluicegate.store.plugin import sluicegate_metadata_store

_GATEWAYS = 10
_CHANGES, _QUICK_CHANGES = 50, 5
_LONGEST_S = 60
_LOG = {"format": "json", "repeats": 0}


def _gate(stack: ExitStack, directory: Path, store: str) -> Gate:
    """A gate in front of a broker that is not there: no client comes."""
    nowhere, unrecorded = f"127.0.0.1:{free_port()}", {"enabled": False}
    return Gate(stack, directory, "kafka", [nowhere], {}, store=store, decisions=unrecorded, log=_LOG)


def _applied_at(gate: Gate, change: int) -> datetime:
    """When a gate's worker put the n-th change into force, by its own log; waits until it has."""
    gate.child.wait_until(lambda: len(_applied(gate)) >= change, "did not apply a change", _LONGEST_S)
    return _applied(gate)[change - 1]


def _applied(gate: Gate) -> list[datetime]:
    lines = (json.loads(line) for line in gate.log.splitlines() if line.startswith("{"))
    return [datetime.fromisoformat(line["time"]) for line in lines if "to_version" in line]


def _policy_change(bench: Bench, _name: str, quick: bool) -> dict[str, float]:
    if missing := why_no_etcd():
        raise UnavailableError(missing)
    directory = bench.directory / "policy-change"
    with ExitStack() as stack:
        etcd = stack.enter_context(Etcd(directory / "etcd"))
        url = f"{etcd.url}/fleet"
        gates = [_gate(stack, directory / f"gate-{number}", url) for number in range(_GATEWAYS)]
        for gate in gates:
            gate.wait()
        store = sluicegate_metadata_store(url=url)
        assert store is not None
        stack.callback(store.close)
        taken = []
        for number in range(1, 1 + (_QUICK_CHANGES if quick else _CHANGES)):
            began = datetime.now(UTC)
            store.set(Level.BROKER, "", "max_publish_rate", 1_000 + number, "benchmark")
            last = max(_applied_at(gate, number) for gate in gates)
            taken.append((last - began).total_seconds())
    return {"median_s": median(taken), "longest_s": max(taken)}


SCENARIOS = (
    Scenario(
        "policy-change",
        "a policy changed in etcd, until the workers of ten gateways apply it",
        (SLUICEGATE,),
        _policy_change,
        rounds=1,
        cold_round=False,
    ),
)
