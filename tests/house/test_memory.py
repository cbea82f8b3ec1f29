"""A worker carries only what deciding takes: what is heavy is loaded elsewhere, or when it is needed."""

import subprocess
import sys

import pytest

HEAVY = ("pyarrow", "rich", "starlette", "uvicorn", "httpx", "click", "yaml", "prometheus_client", "numpy")
WORKER = """
import sys
import sluicegate.processes.worker_main
from sluicegate.runtime.plugins import load_plugins
drivers = load_plugins(()).drivers
for system in {systems}:
    driver = drivers[system]
    driver.front(driver.config_model.model_validate({{
        "name": "b", "system": system, "bootstrap": ["127.0.0.1:1"], "listen": {{"port": 19092}},
    }}))
"""
SUPERVISOR = """
import sys
import sluicegate.cli.run, sluicegate.processes.supervisor, sluicegate.metrics.http
import sluicegate.runtime.policies_in_force
from sluicegate.runtime.plugins import load_plugins
assert set(load_plugins(()).drivers) >= {"kafka", "pulsar"}
"""


def loaded(code: str, names: tuple[str, ...]) -> str:
    """Which of these modules are there after running some code in a process of its own."""
    ask = f"{code}\nprint([name for name in {names!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize("system", ["kafka", "pulsar"])
def test_a_worker_loads_nothing_that_serves_others(system: str) -> None:
    other = {"kafka": "sluicegate_pulsar.front", "pulsar": "sluicegate_kafka.front"}[system]
    own = f"sluicegate_{system}.front"
    assert loaded(WORKER.format(systems=[system]), (*HEAVY, own, other, "aiokafka", "pulsar")) == f"['{own}']"


def test_a_supervisor_loads_nothing_that_only_workers_or_other_commands_need() -> None:
    elsewhere = ("pyarrow", "numpy", "rich", "httpx", "sluicegate_kafka.front", "sluicegate_pulsar.front")
    assert loaded(SUPERVISOR, elsewhere) == "[]"


def test_what_is_made_into_parquet_is_made_elsewhere() -> None:
    assert loaded("import sys, sluicegate.decisions.compaction", ("pyarrow", "starlette")) == "['pyarrow']"
