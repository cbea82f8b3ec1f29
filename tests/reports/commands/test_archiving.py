"""`sluicegate report archive-classes`: with a real Java, which tells where its classes come from."""

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.real.gate import COMMAND
from tests.reports.conftest import need_java
from tests.reports.recorded import make_run

from sluicegate.cli import main
from sluicegate_reports.commands.usage import java, spark_classes
from sluicegate_reports.model.runs import write_run

_ARCHIVED = "shared objects file (top)"
"""Java's word for a class that comes from an archive beside its own."""


def report(cache: Path, *arguments: str | Path, java: str = "") -> "subprocess.CompletedProcess[str]":
    """`sluicegate report ARGUMENTS` with a cache and further options of Java."""
    return subprocess.run(
        [*COMMAND, "report", *arguments],
        env={**os.environ, "XDG_CACHE_HOME": str(cache), "SPARK_SUBMIT_OPTS": java},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.longer
@pytest.mark.slow
def test_spark_takes_its_classes_from_the_archive(tmp_path: Path) -> None:
    need_java()
    run, cache, loaded = tmp_path / "run", tmp_path / "cache", tmp_path / "loaded"
    run.mkdir()
    whole = make_run(run)
    write_run(run, replace(whole, trials=whole.trials[:1]))  # Spark itself is most of what is loaded
    made = report(cache, "archive-classes", run)
    assert made.returncode == 0, made.stderr
    assert f" MB are kept in {cache / 'sluicegate' / 'classes'}" in made.stdout

    logged = f"-Xlog:class+load:file={loaded}"
    compared = report(cache, "compare", run, "--spark", "--format", "json", java=logged)
    assert compared.returncode == 0, compared.stderr
    lines = loaded.read_text().splitlines()
    assert sum(_ARCHIVED in line for line in lines) > len(lines) / 2


def test_an_archive_that_does_not_fit_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need_java()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    archive = spark_classes()
    archive.path.parent.mkdir(parents=True)
    archive.path.write_bytes(b"no archive")
    assert archive.options
    started = subprocess.run([str(java()), *archive.options, "-version"], capture_output=True, check=False)
    assert (started.returncode, started.stdout) == (0, b"")
    assert b"archive" not in started.stderr


def _invoke(monkeypatch: pytest.MonkeyPatch, *arguments: str | Path) -> Result:
    monkeypatch.setenv("SLUICEGATE_LOAD_PLUGINS", "reports")
    return CliRunner().invoke(main, ["report", "archive-classes", *map(str, arguments)])


def test_a_directory_without_a_run_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need_java()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    result = _invoke(monkeypatch, tmp_path)
    assert result.exit_code == 2
    assert "is no comparison run, it has no run.json" in result.stderr


def test_a_cache_that_cannot_be_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need_java()
    (tmp_path / "cache").write_text("a file")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    result = _invoke(monkeypatch, tmp_path)
    assert result.exit_code == 2
    assert "set XDG_CACHE_HOME to a directory that can be written" in result.stderr
