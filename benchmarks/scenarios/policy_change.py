"""Ten gateways with their policies in one etcd: how long a change takes until each of them applies it."""

import json
import sys
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from benchmarks.harness.arms import Bench
from benchmarks.harness.etcd import Etcd, why_no_etcd
from benchmarks.harness.names import SLUICEGATE
from benchmarks.harness.processes import Child, UnavailableError, free_port, free_ports
from benchmarks.harness.scenario import Scenario
from sluicegate.model import Level
from sluicegate.store.plugin import sluicegate_metadata_store

_GATEWAYS = 10
_CHANGES, _QUICK_CHANGES = 50, 5
_START_S = 120
_LONGEST_S = 60
_FILE = """brokers:
- name: main
  system: kafka
  bootstrap: ["127.0.0.1:{broker}"]
  listen: {{port: {port}}}
admin: {{port: {admin}}}
state_dir: {directory}/state
store: {store}
decisions: {{enabled: false}}
log: {{format: json, repeats: 0}}
"""


class _Gateway:
    """`sluicegate run` in front of a broker that is not there: no client comes."""

    def __init__(self, stack: ExitStack, directory: Path, store: str) -> None:
        directory.mkdir(parents=True)
        file = directory / "gateway.yaml"
        places = {"broker": free_port(), "port": free_ports(8), "admin": free_port()}
        file.write_text(_FILE.format(**places, directory=directory, store=store))
        program = Path(sys.executable).with_name("sluicegate")
        self._log = directory / "log"
        self._child = Child(SLUICEGATE, [program, "run", "-c", file], self._log)
        stack.enter_context(self._child)

    def wait(self) -> None:
        """Return once it serves."""
        self._child.wait_for("sluicegate ready:", _START_S)

    def applied_at(self, change: int) -> datetime:
        """When its worker put the n-th change into force, by its own log; waits until it has."""
        self._child.wait_until(lambda: len(self._applied()) >= change, "did not apply a change", _LONGEST_S)
        return self._applied()[change - 1]

    def _applied(self) -> list[datetime]:
        lines = (json.loads(line) for line in self._log.read_text().splitlines() if line.startswith("{"))
        return [datetime.fromisoformat(line["time"]) for line in lines if "to_version" in line]


def _policy_change(bench: Bench, _name: str, quick: bool) -> dict[str, float]:
    if missing := why_no_etcd():
        raise UnavailableError(missing)
    directory = bench.directory / "policy-change"
    with ExitStack() as stack:
        etcd = stack.enter_context(Etcd(directory / "etcd"))
        url = f"{etcd.url}/fleet"
        gateways = [_Gateway(stack, directory / f"gate-{number}", url) for number in range(_GATEWAYS)]
        for gateway in gateways:
            gateway.wait()
        store = sluicegate_metadata_store(url=url)
        assert store is not None
        stack.callback(store.close)
        taken = []
        for number in range(1, 1 + (_QUICK_CHANGES if quick else _CHANGES)):
            began = datetime.now(UTC)
            store.set(Level.BROKER, "", "max_publish_rate", 1_000 + number, "benchmark")
            last = max(gateway.applied_at(number) for gateway in gateways)
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
