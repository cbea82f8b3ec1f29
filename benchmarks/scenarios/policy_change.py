"""Ten gateways with their policies in one etcd: how long a change takes until each of them applies it."""

import re
import sys
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
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
_LONGEST_S = 30
_APPLIED = re.compile(rb"^sluicegate_policy_version\{[^}]*\} ([0-9.]+)", re.MULTILINE)
_FILE = """brokers:
- name: main
  system: kafka
  bootstrap: ["127.0.0.1:{broker}"]
  listen: {{port: {port}}}
admin: {{port: {admin}}}
state_dir: {directory}/state
store: {store}
decisions: {{enabled: false}}
"""


class _Gateway:
    """`sluicegate run` in front of a broker that is not there: no client comes."""

    def __init__(self, stack: ExitStack, directory: Path, store: str) -> None:
        directory.mkdir(parents=True)
        self._admin = free_port()
        file = directory / "gateway.yaml"
        places = {"broker": free_port(), "port": free_ports(8), "admin": self._admin}
        file.write_text(_FILE.format(**places, directory=directory, store=store))
        program = Path(sys.executable).with_name("sluicegate")
        self._child = Child(SLUICEGATE, [program, "run", "-c", file], directory / "log")
        stack.enter_context(self._child)

    def wait(self) -> None:
        """Return once it serves."""
        self._child.wait_for("sluicegate ready:", _START_S)

    def applied(self) -> int:
        """Version of the policies that its worker applies."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._admin}/metrics", timeout=_LONGEST_S) as answer:
            found = _APPLIED.search(answer.read())
        return 0 if found is None else int(float(found[1]))

    def seconds_until(self, version: int, began: float) -> float:
        """Return once its worker applies a version: the seconds since `began`."""
        while self.applied() < version:
            if time.monotonic() - began > _LONGEST_S:
                raise RuntimeError(f"version {version} was not applied in {_LONGEST_S} s")
            time.sleep(0.01)
        return time.monotonic() - began


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
        pool = stack.enter_context(ThreadPoolExecutor(_GATEWAYS))
        taken: list[float] = []
        for number in range(_QUICK_CHANGES if quick else _CHANGES):
            wanted = [gateway.applied() + 1 for gateway in gateways]
            began = time.monotonic()
            store.set(Level.BROKER, "", "max_publish_rate", 1_000 + number, "benchmark")
            asked = [
                pool.submit(gateway.seconds_until, version, began)
                for gateway, version in zip(gateways, wanted, strict=True)
            ]
            taken.append(max(each.result() for each in asked))
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
