"""The admin API with 20,000 topics: how long answers take, and a change until it is in force and sent on."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.harness.admin_asking import Asking, note_in
from benchmarks.harness.arms import Bench
from benchmarks.harness.names import ENGINE
from benchmarks.harness.processes import free_port
from benchmarks.harness.scenario import Scenario
from sluicegate.admin import EFFECTIVE_POLICIES, POLICIES
from sluicegate.admin.running_note import NAME, RunningNote

_TOPICS, _QUICK_TOPICS = 20_000, 1_000
_ASKED = 200
_CHANGES = 50


def _policy_changes(bench: Bench, _name: str, quick: bool) -> dict[str, float]:
    count = _QUICK_TOPICS if quick else _TOPICS
    with _gateway(bench.directory / "policy-changes", count) as note:
        ask = Asking(note)
        topics = [_topic(number) for number in range(0, count, count // _ASKED)]
        return {
            **_spread("explain", [ask("GET", f"{EFFECTIVE_POLICIES}?topic={topic}") for topic in topics]),
            **_spread("page", [ask("GET", f"{POLICIES}?limit=200") for _ in range(_CHANGES)]),
            **_spread("plan", [ask("PATCH", f"{POLICIES}?dry_run=true", _edit(n)) for n in range(_CHANGES)]),
            **_spread("change", [ask("PATCH", POLICIES, _edit(number)) for number in range(_CHANGES)]),
        }


def _topic(number: int) -> str:
    return f"team-{number % 100}.topic-{number}"


def _edit(number: int) -> dict[str, object]:
    edit = {"level": "topic", "name": _topic(number), "field": "max_publish_rate", "value": number + 1}
    return {"edits": [edit]}


def _spread(what: str, times_ms: list[float]) -> dict[str, float]:
    ordered = sorted(times_ms)
    return {f"{what}_p50_ms": ordered[len(ordered) // 2], f"{what}_p95_ms": ordered[len(ordered) * 95 // 100]}


@contextmanager
def _gateway(directory: Path, topics: int) -> Iterator[RunningNote]:
    """A gateway with an unreachable broker and no clients."""
    directory.mkdir(parents=True)
    entry = {"name": "main", "system": "kafka", "bootstrap": ["127.0.0.1:1"], "listen": {"port": free_port()}}
    own = [
        {"name": _topic(n), "max_publish_rate": 100 + n, "max_producers_per_topic": 20} for n in range(topics)
    ]
    file = {"brokers": [entry], "admin": {"port": free_port()}, "policies": {"topics": own}}
    path = directory / "gateway.json"
    path.write_text(json.dumps({"state_dir": str(directory), **file}))
    command = [sys.executable, "-P", "-m", "sluicegate", "run", "-c", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield note_in(directory / NAME)
        finally:
            process.send_signal(signal.SIGTERM)


SCENARIOS = (
    Scenario(
        "policy-changes",
        "the admin API with 20,000 topics: time of answers, and of a change until it is sent to the worker",
        (ENGINE,),
        _policy_changes,
        rounds=1,
        cold_round=False,
    ),
)
