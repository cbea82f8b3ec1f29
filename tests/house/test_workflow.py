"""The workflow of the failover runs what a person runs, and keeps what a failed run leaves behind."""

import configparser
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.conftest import ARTEFACTS

ROOT = Path(__file__).resolve().parents[2]
_FILE = ROOT / ".github" / "workflows" / "broker-failover-e2e.yml"


@pytest.fixture
def job() -> dict[str, Any]:
    """The one job."""
    [found] = yaml.safe_load(_FILE.read_text())["jobs"].values()
    return dict(found)


@pytest.mark.seed("S3-016")
def test_it_runs_the_environment_of_tox(job: dict[str, Any]) -> None:
    tox = configparser.ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini")
    runs = [step["run"] for step in job["steps"] if "run" in step]
    assert "tox run -e failover" in runs
    folder = tox["testenv:failover"]["commands"].split()[1]
    assert sorted(ROOT.glob(f"{folder}/test_*.py"))
    assert job["env"]["SLUICEGATE_REQUIRE_BROKER"] == "1"
    assert any("etcd-server" in run for run in runs)


@pytest.mark.seed("S3-016")
def test_logs_and_keys_of_a_failed_run_are_uploaded(job: dict[str, Any]) -> None:
    [upload] = [step for step in job["steps"] if "upload-artifact" in step.get("uses", "")]
    assert upload["if"] == "failure()"
    assert job["env"][ARTEFACTS].endswith(upload["with"]["path"])
