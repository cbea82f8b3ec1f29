"""The example distributions as users have them: built, installed beside the project, found by entry point."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.features.storage_quota.conftest import PrometheusDouble
from tests.real.needs import need
from tests.waiting import LONG_S, until

from sluicegate.embedded import PolicyEngine
from sluicegate.model import Action, Operation, OperationKind
from sluicegate.runtime.plugins import CHOICE
from sluicegate.testing import RecordingSink

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = {
    # Each with its plugin's name, its tests, and its hooks.
    "business-hours": (
        "business_hours",
        "tests/test_business_hours.py",
        "sluicegate_policy_checks, sluicegate_policy_model",
    ),
    "header-rule": (
        "header_rule",
        "tests/test_header_rule.py",
        "sluicegate_policy_checks, sluicegate_policy_model",
    ),
    "mqtt-broker": ("mqtt", "tests/test_mqtt.py", "sluicegate_broker"),
    "prometheus-factor": (
        "prometheus_factor",
        "test_prometheus_factor.py",
        "sluicegate_policy_model, sluicegate_quota_factors, sluicegate_tasks",
    ),
}
MODULE = "sluicegate_prometheus_factor"
QUERY = "2 * (1 - max(rate(node_disk_io_time_seconds_total[1m])))"
RATE = 100
FILE = """
brokers: [{{name: shop, system: service}}]
state_dir: {state}
policies:
  broker:
    max_publish_rate: {rate}/s
    prometheus_factor_url: {url}/prometheus
    prometheus_factor: '{query}'
    prometheus_factor_interval: 50ms
    prometheus_factor_timeout: {timeout}s
    on_unknown: {{ prometheus_factor: {choice} }}
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the distributions installed into it, from their own wheels and without any network."""
    target = tmp_path_factory.mktemp("site")
    options = ("--no-index", "--no-deps", "--no-build-isolation", "--quiet", "--disable-pip-version-check")
    folders = [str(ROOT / "examples" / name) for name in EXAMPLES]
    command = [sys.executable, "-m", "pip", "install", *options, "--target", str(target), *folders]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONG_S)
    assert done.returncode == 0, done.stdout + done.stderr
    return target


def python(installed: Path, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run a Python that finds the distribution beside the project."""
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": str(installed), **environment},
        capture_output=True,
        text=True,
        timeout=LONG_S,
        cwd=installed,
    )


@pytest.fixture
def on_path(installed: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This process finds it too, and nothing else that is installed."""
    monkeypatch.setenv(CHOICE, "prometheus_factor")
    monkeypatch.syspath_prepend(str(installed))
    yield
    sys.modules.pop(MODULE, None)


def test_they_are_listed_with_their_versions_and_hooks(installed: Path) -> None:
    # No choice of plugins: they are found like any other that is installed.
    done = python(installed, "-c", "from sluicegate.cli import main; main()", "plugins", "list")
    assert done.returncode == 0, done.stderr
    listed = {line.split()[0]: line.split(maxsplit=2)[1:] for line in done.stdout.splitlines()}
    for plugin, _, hooks in EXAMPLES.values():
        assert listed[plugin] == ["0.1.0", f"entry point  {hooks}"]


@pytest.mark.parametrize("example", EXAMPLES)
def test_its_own_tests_pass(installed: Path, tmp_path: Path, example: str) -> None:
    source = ROOT / "examples" / example / EXAMPLES[example][1]
    tests = tmp_path / source.name
    tests.write_bytes(source.read_bytes())
    done = python(installed, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", str(tests))
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
    if " skipped" in done.stdout:
        need("mosquitto and mosquitto-clients are not installed")


class Lab:
    """An engine with the distribution in it, and a server that gives what the test wants.

    :param timeout_s: how long an answer may take: long where the test says that the server is well.
    """

    def __init__(
        self, directory: Path, prometheus: PrometheusDouble, choice: str, timeout_s: float = LONG_S
    ) -> None:
        file = directory / "gateway.yaml"
        values = {"state": directory / "state", "url": prometheus.url, "query": QUERY, "timeout": timeout_s}
        file.write_text(FILE.format(**values, choice=choice, rate=RATE))
        self.prometheus = prometheus
        self.gives("1")
        self.engine = PolicyEngine.from_file(file, environ={}, sink=RecordingSink())
        factor = self.engine.context.factors.get("prometheus_factor")
        assert factor is not None
        self.factor = factor
        self._now_ns = time.monotonic_ns()

    def gives(self, value: str) -> None:
        self.prometheus.series = {QUERY: [({}, value)]}

    def publish(self) -> tuple[Action, int, str]:
        op = Operation(OperationKind.PUBLISH, "orders.eu", messages=1, bytes=100, largest=100)
        with self.engine.lock:
            gate = self.engine.gate("orders.eu", False, self._now_ns)
            decision = gate.publish(op, self._now_ns)
            if decision is None:
                return Action.ALLOW, 0, ""
            gate.abandon(op, self._now_ns)
        return decision.action, decision.delay_ns, decision.text

    def admitted(self, seconds: int) -> float:
        """Messages per second that pass, over so many seconds of the gate's own time."""
        end_ns, passed = self._now_ns + seconds * 10**9, 0
        while self._now_ns < end_ns:
            action, wait_ns, _ = self.publish()
            passed += action is Action.ALLOW
            self._now_ns += wait_ns
        return passed / seconds


@pytest.fixture
def make(on_path: None, tmp_path: Path) -> Iterator[Callable[..., Lab]]:
    prometheus = PrometheusDouble()
    labs: list[Lab] = []

    def made(choice: str, **settings: float) -> Lab:
        labs.append(Lab(tmp_path, prometheus, choice, **settings))
        return labs[-1]

    yield made
    for lab in labs:
        lab.engine.close()
    prometheus.close()


def test_the_admitted_rate_follows_the_query(make: Callable[..., Lab]) -> None:
    lab = make("pause")
    assert lab.factor.known  # the first query is waited for
    lab.admitted(2)  # the burst
    for told, value in (("0.5", 0.5), ("0.13", 0.13), ("7", 1.0)):
        lab.gives(told)
        until(lambda value=value: lab.factor.value == value)  # type: ignore[misc]
        lab.admitted(2)
        assert lab.admitted(50) == pytest.approx(RATE * value, rel=0.02), told
    lab.gives("0")
    until(lambda: lab.factor.value == 0.0)
    assert lab.admitted(50) == 0
    assert "paused by prometheus_factor" in lab.publish()[2]


@pytest.mark.parametrize(("choice", "value"), [("pause", 0.0), ("open", 1.0), ("last", 0.5)])
def test_a_dead_prometheus_acts_by_on_unknown_until_it_is_back(
    make: Callable[..., Lab], choice: str, value: float
) -> None:
    lab = make(choice, timeout_s=1)
    lab.gives("0.5")
    until(lambda: lab.factor.known and lab.factor.value == 0.5)
    lab.prometheus.hold.clear()  # it takes the question, and never answers
    until(lambda: not lab.factor.known)
    assert lab.factor.value == value
    assert "does not answer within 1 s" in lab.factor.why
    lab.admitted(2)
    assert lab.admitted(50) == pytest.approx(RATE * value, rel=0.02)
    lab.prometheus.hold.set()
    until(lambda: lab.factor.known and lab.factor.value == 0.5)
