"""What the Makefile's set-up does where a tool is missing, and after an interruption."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """What the set-up needs of a source tree, with an environment that counts as made."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    package = Path("reports/sluicegate_reports/runner/brokers")
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / package, tmp_path / package, ignore=ignored)
    for pom in ("kafka", "pulsar", "peers/strimzi-quotas", "spark-s3"):
        place = tmp_path / "deploy" / pom
        place.mkdir(parents=True)
        shutil.copy(ROOT / "deploy" / pom / "pom.xml", place)
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / ".venv/bin/python").symlink_to(sys.executable)
    (tmp_path / ".venv/made").touch()
    return tmp_path


def make(tree: Path, *arguments: str, tools: tuple[str, ...] = (), required: str = "0") -> "tuple[int, str]":
    """Run make with nothing on its path but these tools, and a shell.

    :return: its exit code and all that it printed.
    """
    program = shutil.which("make")
    assert program is not None
    tree.joinpath("tools").mkdir()
    for tool in ("sh", "touch", *tools):
        found = shutil.which(tool)
        assert found is not None
        (tree / "tools" / tool).symlink_to(found)
    done = subprocess.run(
        [program, f"PYTHON={sys.executable}", *arguments],
        cwd=tree,
        env={"PATH": str(tree / "tools"), "HOME": str(tree), "SLUICEGATE_REQUIRE_BROKER": required},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


@pytest.mark.parametrize("required", ["0", "1"])
def test_a_missing_java_is_told_and_ends_the_run_only_where_brokers_are_required(
    tree: Path, required: str
) -> None:
    code, said = make(tree, "jars", required=required)
    assert "error: java is not installed; Java 17 or later is needed\n" in said
    assert "the tests on a real Kafka and a real Pulsar cannot run\n" in said
    assert (code != 0) == (required == "1")


def test_a_missing_maven_is_told_with_the_remedy(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tree / "java"
    java.write_text("#!/bin/sh\n")
    java.chmod(0o755)
    monkeypatch.setenv("PATH", str(tree), prepend=os.pathsep)
    half = tree / "deploy/kafka/target/dependency/half.jar"  # of a set-up that was interrupted
    half.parent.mkdir(parents=True)
    half.touch()
    code, said = make(tree, "jars", tools=("java",))
    assert code == 0
    assert "mvn is not installed, which fetches Kafka: install Maven" in said
    assert "SLUICEGATE_STRIMZI_LIBS" in said


def test_the_version_of_a_broker_may_be_chosen(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for tool in ("java", "mvn"):
        (tree / tool).write_text("#!/bin/sh\nexit 1\n")
        (tree / tool).chmod(0o755)
    monkeypatch.setenv("PATH", str(tree), prepend=os.pathsep)
    _, said = make(tree, "jars", "SLUICEGATE_KAFKA_VERSION=3.9.1", tools=("java", "mvn"))
    assert f"fetching Kafka with Maven into {tree}/deploy/kafka/target/3.9.1/dependency\n" in said
    assert f"fetching Pulsar with Maven into {tree}/deploy/pulsar/target/dependency\n" in said


@pytest.mark.parametrize("required", ["0", "1"])
@pytest.mark.parametrize(
    ("target", "client"),
    [("franz-go", "franz-go"), ("grpc-go", "a grpc-go client"), ("pulsar-go", "Pulsar's Go client")],
)
def test_a_missing_go_is_told(tree: Path, target: str, client: str, required: str) -> None:
    code, said = make(tree, target, "GO=", required=required)
    assert f"missing: go (1.19 or later); the tests with {client} cannot run\n" in said
    assert (code != 0) == (required == "1")


def test_an_environment_whose_making_was_interrupted_is_made_anew(tree: Path) -> None:
    """There is a Python in it already, but no pip."""
    (tree / ".venv/made").unlink()
    (tree / ".venv/bin/python").unlink()
    (tree / ".venv/bin/python").write_text("half of it")
    code, said = make(tree, ".venv/made")
    assert code == 0, said
    asked = subprocess.run(
        [tree / ".venv/bin/python", "-m", "pip", "--version"], capture_output=True, text=True, check=False
    )
    assert asked.stdout.startswith("pip "), asked.stderr
    assert str(tree) in asked.stdout


def test_a_python_that_is_too_old_is_told(tree: Path) -> None:
    (tree / ".venv/made").unlink()
    old = tree / "old"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    code, said = make(tree, ".venv/made", f"PYTHON={old}")
    assert code != 0
    assert f"{old} is older than 3.11: set PYTHON=/path/to/python3.11" in said
