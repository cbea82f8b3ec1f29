"""`sluicegate report compare` with a fake job; and without Spark, Java or a run."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from click.testing import CliRunner, Result
from tests.reports.model.example import example

from sluicegate.cli import main
from sluicegate_reports.commands.usage import Unusable, need_java
from sluicegate_reports.model.listing import Listing, listing
from sluicegate_reports.model.results import Results, RunFacts
from sluicegate_reports.model.runs import FACTS_FILE, Run, RunError, write_run
from sluicegate_reports.spark import session

Invoke = Callable[..., Result]
_JOB = "sluicegate_reports.jobs.compare"


class Session:
    """A Spark session that only knows whether it was stopped."""

    stopped = False

    def stop(self) -> None:
        self.stopped = True


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> Session:
    started = Session()
    monkeypatch.setattr(session, "spark_session", lambda name, settings, **_: started)
    monkeypatch.setenv("SPARK_REMOTE", "sc://127.0.0.1:1")  # so that nobody looks for Java here
    return started


@pytest.fixture
def compare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Invoke:
    """Run `sluicegate report compare run ARGUMENTS` in a directory where `run` is a run without trials."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLUICEGATE_LOAD_PLUGINS", "reports")
    Path("run").mkdir()
    write_run(Path("run"), Run(RunFacts("r1", "", "")))

    def invoke(*arguments: str) -> Result:
        return CliRunner().invoke(main, ["report", "compare", "run", *arguments], catch_exceptions=False)

    return invoke


def put_job(monkeypatch: pytest.MonkeyPatch, job: Callable[[object, Listing], Results]) -> None:
    module = ModuleType(_JOB)
    module.compare_run = lambda spark, directory, _: job(spark, directory)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, _JOB, module)


def test_findings_of_the_job_are_reported(
    compare: Invoke, spark: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[object, Listing]] = []

    def job(given: object, directory: Listing) -> Results:
        asked.append((given, directory))
        return example()

    put_job(monkeypatch, job)
    result = compare("--out", "r.html", "--fail-on", "off_cells")
    assert asked == [(spark, listing("run"))]
    assert result.exit_code == 1
    assert Path("r.html").read_text().startswith("<!doctype html>")
    assert spark.stopped


def test_a_small_run_on_this_machine_is_compared_without_spark(
    compare: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    def job(given: object, directory: Listing) -> Results:
        asked.append(given)
        return example()

    put_job(monkeypatch, job)
    monkeypatch.setattr(session, "spark_session", lambda name, settings, **_: pytest.fail("Spark started"))
    for name in ("MASTER", "SPARK_REMOTE"):
        monkeypatch.delenv(name, raising=False)
    assert compare().exit_code == 0
    assert asked == [None]


def test_a_directory_without_a_run_is_refused_and_the_session_is_stopped(
    compare: Invoke, spark: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def job(given: object, directory: Listing) -> Results:
        raise RunError(f"{directory.folder.name!r} is no comparison run")

    put_job(monkeypatch, job)
    result = compare()
    assert result.exit_code == 2
    assert result.stderr == "Error: 'run' is no comparison run\n"
    assert spark.stopped


def test_a_directory_without_a_run_is_reported_before_spark_starts(
    compare: Invoke, spark: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_job(monkeypatch, lambda given, directory: pytest.fail("the job ran"))
    monkeypatch.setattr(session, "spark_session", lambda name, settings, **_: pytest.fail("Spark started"))
    Path("run", FACTS_FILE).unlink()
    result = compare()
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: 'run' is no comparison run, it has no run.json")


def test_wrong_options_are_found_before_spark_starts(
    compare: Invoke, spark: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_job(monkeypatch, lambda given, directory: pytest.fail("the job ran"))
    assert compare("--out", "r.pdf").exit_code == 2
    assert compare("--fail-on", "a=b").exit_code == 2


def test_without_spark_the_remedy_is_printed(compare: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, _JOB, None)
    result = compare()
    assert result.exit_code == 2
    assert "pip install 'sluicegate[reports]'" in result.stderr
    assert "sluicegate report render" in result.stderr


def test_without_java_the_remedy_is_printed(
    compare: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_job(monkeypatch, lambda given, directory: example())
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("JAVA_HOME", "SPARK_REMOTE"):
        monkeypatch.delenv(name, raising=False)
    assert compare().exit_code == 0  # a small run needs neither
    result = compare("--spark")
    assert result.exit_code == 2
    assert "Spark needs Java 17" in result.stderr
    assert "JAVA_HOME" in result.stderr


def test_a_java_that_is_too_old_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("JAVA_HOME", "SPARK_REMOTE"):
        monkeypatch.delenv(name, raising=False)
    java = tmp_path / "java"
    for first, major in (('openjdk version "11.0.2" 2019-01-15', 11), ('java version "1.8.0_402"', 8)):
        java.write_text(f"#!/bin/sh\necho '{first}' >&2\n")
        java.chmod(0o755)
        with pytest.raises(Unusable, match=f"and {java} is Java {major}: apt-get install"):
            need_java()
    java.write_text("#!/bin/sh\necho 'openjdk version \"21\" 2023-09-19' >&2\n")
    need_java()


def test_a_java_home_without_java_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(Unusable, match=f"JAVA_HOME={tmp_path} holds none"):
        need_java()


def test_repetitions_are_compared_one_by_one_and_merged(
    compare: Invoke, spark: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def job(given: object, directory: Listing) -> Results:
        asked.append(directory.folder.name)
        return example()

    put_job(monkeypatch, job)
    Path("run", FACTS_FILE).unlink()
    for name in ("run-1", "run-2"):
        Path("run", name).mkdir()
        write_run(Path("run", name), Run(RunFacts(name, "", "")))
    result = compare("--format", "markdown")
    assert asked == ["run-1", "run-2"]
    assert result.exit_code == 0
    assert "2 repetitions: figures are medians" in result.stdout
    assert spark.stopped
