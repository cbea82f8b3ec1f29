"""Where the jars of real brokers are found and how they are fetched; a script replaces Maven."""

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sluicegate_reports.runner.brokers import jars
from sluicegate_reports.runner.brokers.fetching import fetch
from sluicegate_reports.runner.brokers.processes import UnavailableError
from sluicegate_reports.runner.command import compare

_ROOT = Path(__file__).parents[3]
_MAVEN = """\
for argument; do case $argument in -DoutputDirectory=*) to=${argument#*=};; esac; done
/bin/mkdir -p "$to" && echo jar >"$to/first-1.0.jar" && echo "$@" >>"$CALLS" || exit 1
"""


class Machine:
    """A user's machine with the product installed, and no source tree in sight."""

    def __init__(self, directory: Path) -> None:
        self.bin, self.cache, self.calls = directory / "bin", directory / "cache", directory / "calls"
        self.bin.mkdir()
        self.put("java", "true")

    def put(self, name: str, does: str) -> None:
        """Install a program."""
        program = self.bin / name
        program.write_text(f"#!/bin/sh\n{does}\n")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)

    @property
    def kafka(self) -> Path:
        """Where Kafka's jars go."""
        return self.cache / "sluicegate" / "jars" / "kafka"

    def times_fetched(self) -> int:
        """How often Maven ran to its end."""
        return len(self.calls.read_text().splitlines()) if self.calls.exists() else 0


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """The installed package is in a folder of its own, with the poms as the wheel has them."""
    made = Machine(tmp_path)
    poms = tmp_path / "lib/python/site-packages/brokers/poms"
    poms.mkdir(parents=True)
    for each in jars.SHIPPED:
        (poms / f"{each.name}.xml").write_bytes((_ROOT / "deploy" / each.folder / "pom.xml").read_bytes())
        monkeypatch.delenv(each.variable, raising=False)
        monkeypatch.delenv(each.version_variable, raising=False)
    monkeypatch.setattr(jars, "_HERE", poms.parent)
    monkeypatch.setenv("PATH", str(made.bin))
    monkeypatch.setenv("XDG_CACHE_HOME", str(made.cache))
    monkeypatch.setenv("CALLS", str(made.calls))
    monkeypatch.chdir(tmp_path)
    return made


@pytest.fixture
def run(machine: Machine) -> Callable[..., Result]:
    """Run `sluicegate compare fetch ARGUMENTS`."""
    return lambda *names: CliRunner().invoke(compare, ["fetch", *names], catch_exceptions=False)


Run = Callable[..., Result]


def test_without_jars_the_error_gives_the_command_and_the_variable(machine: Machine) -> None:
    for each in jars.SHIPPED:
        with pytest.raises(UnavailableError) as caught:
            jars.classpath(each)
        assert str(caught.value) == (
            f"{machine.cache}/sluicegate/jars/{each.name} holds no jars of {each.title}: run `sluicegate "
            f"compare fetch {each.name}`, which needs Maven, or name a folder that holds them in "
            f"SLUICEGATE_{each.name.upper()}_LIBS"
        )


def test_what_is_fetched_is_found_and_not_fetched_again(machine: Machine, run: Run) -> None:
    machine.put("mvn", _MAVEN)
    done = run("kafka")
    assert done.exit_code == 0
    assert done.output.splitlines() == [
        f"fetching Kafka with Maven into {machine.kafka}",
        f"kafka: {machine.kafka}",
    ]
    assert jars.classpath(jars.KAFKA) == f"{machine.kafka}/*"
    assert jars.version(jars.KAFKA, "first") == "1.0"
    assert run("kafka").output == f"kafka: {machine.kafka}\n"
    assert machine.times_fetched() == 1


def test_without_a_name_all_are_fetched(machine: Machine, run: Run) -> None:
    machine.put("mvn", _MAVEN)
    assert run().exit_code == 0
    assert all(jars.has_jars(machine.cache / "sluicegate/jars" / each.name) for each in jars.SHIPPED)


def test_java_takes_the_users_options_for_maven_over_ours(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = machine.cache / "options"
    machine.put("mvn", f"{_MAVEN}\necho $MAVEN_OPTS >{options}")
    monkeypatch.setenv("MAVEN_OPTS", "-Xmx99m")
    fetch(jars.KAFKA, print)
    *ours, last = options.read_text().split()
    assert (last, bool(ours)) == ("-Xmx99m", True)


def test_a_changed_pom_is_fetched_again(machine: Machine) -> None:
    machine.put("mvn", _MAVEN)
    fetch(jars.KAFKA, print)
    pom = jars.pom(jars.KAFKA)
    pom.write_text(pom.read_text().replace("<kafka.version>", "<kafka.version>9."))
    (machine.kafka / "of-the-old-version.jar").touch()
    fetch(jars.KAFKA, print)
    assert machine.times_fetched() == 2
    assert [file.name for file in machine.kafka.glob("*.jar")] == ["first-1.0.jar"]


def test_another_version_has_a_folder_of_its_own(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.put("mvn", _MAVEN)
    usual = fetch(jars.KAFKA, print)
    monkeypatch.setenv("SLUICEGATE_KAFKA_VERSION", "3.9.1")
    other = fetch(jars.KAFKA, print)
    assert jars.classpath(jars.KAFKA) == f"{other}/*"
    assert fetch(jars.KAFKA, print) == other
    monkeypatch.setenv("SLUICEGATE_KAFKA_VERSION", "")
    assert jars.classpath(jars.KAFKA) == f"{usual}/*"
    # Archives of classes, which lie beside a folder of jars, replace each other there.
    assert other.parent != usual.parent
    assert ["-Dkafka.version=3.9.1" in call.split() for call in machine.calls.read_text().splitlines()] == [
        False,
        True,
    ]


@pytest.mark.parametrize("each", [jars.KAFKA, jars.PULSAR], ids=lambda each: each.name)
def test_the_pom_takes_another_version(each: jars.JarSet) -> None:
    assert f"<{each.name}.version>" in jars.pom(each).read_text()


def test_an_interrupted_fetch_is_done_again(machine: Machine) -> None:
    """Also one that an earlier version left in the folder itself, where one jar looks like all of them."""
    unfinished = machine.kafka.with_name("kafka.unfinished")
    for half in (machine.kafka, unfinished):
        half.mkdir(parents=True)
        (half / "half.jar").touch()
    machine.put("mvn", _MAVEN)
    fetch(jars.KAFKA, print)
    assert [file.name for file in machine.kafka.glob("*.jar")] == ["first-1.0.jar"]
    assert not unfinished.exists()


def test_a_fetch_that_fails_leaves_nothing_that_looks_complete(machine: Machine, run: Run) -> None:
    machine.put("mvn", f"{_MAVEN}\necho '[ERROR] could not transfer kafka-tools'\nexit 1")
    done = run("kafka")
    assert done.exit_code == 1
    assert "error: Maven did not fetch Kafka: could not transfer kafka-tools" in done.output
    assert not machine.kafka.exists()
    with pytest.raises(UnavailableError, match="compare fetch kafka"):
        jars.classpath(jars.KAFKA)


def test_a_missing_maven_is_reported_once_for_each_with_the_remedy(run: Run) -> None:
    done = run("kafka", "pulsar")
    assert done.exit_code == 1
    lines = done.output.splitlines()
    assert [line.split(":")[0] for line in lines] == ["error", "error"]
    assert "mvn is not installed, which fetches Kafka: install Maven" in lines[0]
    assert "apt-get install maven), or set SLUICEGATE_PULSAR_LIBS to a folder with the jars" in lines[1]


def test_a_missing_java_is_reported_once(machine: Machine, run: Run) -> None:
    (machine.bin / "java").unlink()
    done = run()
    assert done.exit_code == 1
    assert done.output == "error: java is not installed; Java 17 or later is needed\n"


def test_a_cache_that_cannot_be_written_is_reported(
    machine: Machine, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.put("mvn", _MAVEN)
    (machine.bin.parent / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(machine.bin.parent / "file"))
    done = run("kafka")
    assert done.exit_code == 1
    assert "set XDG_CACHE_HOME to a directory that can be written, or SLUICEGATE_KAFKA_LIBS" in done.output


def test_a_maven_directory_that_cannot_be_written_is_reported(machine: Machine, run: Run) -> None:
    machine.put("mvn", "echo '[ERROR] Could not create local repository at /home/x/.m2/repository'\nexit 1")
    assert "MAVEN_OPTS=-Dmaven.repo.local=DIR has Maven keep its files in another directory" in run().output


@pytest.mark.parametrize("each", jars.SHIPPED, ids=lambda each: each.name)
def test_a_variable_names_another_folder(
    each: jars.JarSet, machine: Machine, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "own"
    own.mkdir()
    monkeypatch.setenv(each.variable, str(own))
    with pytest.raises(UnavailableError, match=f"{each.variable} names .*own, which holds no jars"):
        jars.classpath(each)
    (own / "mine.jar").touch()
    assert jars.classpath(each) == f"{own}/*"
    assert run(each.name).output == f"{each.name}: {own}\n"  # though there is no Maven


def test_in_a_source_tree_jars_are_beside_their_pom(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for each in jars.SHIPPED:
        jars.pom(each).parent.mkdir(exist_ok=True)
        folder = tmp_path / "deploy" / each.folder
        folder.mkdir(parents=True)
        (folder / "pom.xml").write_text("<project/>")
    (tmp_path / "reports/sluicegate_reports").mkdir(parents=True)
    machine.put("mvn", _MAVEN)
    assert fetch(jars.STRIMZI, print) == tmp_path / "deploy/peers/strimzi-quotas/target/dependency"
    monkeypatch.setenv("SLUICEGATE_PULSAR_VERSION", "4.0.7")
    assert fetch(jars.PULSAR, print) == tmp_path / "deploy/pulsar/target/4.0.7/dependency"
    # What the user has fetched before is good enough.
    machine.kafka.mkdir(parents=True)
    (machine.kafka / "kafka.jar").touch()
    assert jars.folder(jars.KAFKA) == machine.kafka


def test_it_runs_without_any_dependency(machine: Machine) -> None:
    """`make jars` runs it before anything is installed."""
    done = subprocess.run(
        [sys.executable, "-S", "-m", "sluicegate_reports.runner.brokers.fetching"],
        env={**os.environ, "PYTHONPATH": str(_ROOT / "reports"), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout == "error: java is not installed; Java 17 or later is needed\n"
