"""Output of the processes that Spark's start brings along."""

import subprocess
import sys

import pytest

from sluicegate_reports.spark.output import ASKED, quiet

_SAYS = "import sys; sys.stderr.write('WARN something')"


def say() -> None:
    subprocess.run([sys.executable, "-c", _SAYS], check=True)


def test_spark_output_is_hidden(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ASKED, raising=False)
    with quiet():
        say()
    print("own", end="", file=sys.stderr)
    assert capfd.readouterr().err == "own"


def test_spark_output_is_printed_on_request(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ASKED, "1")
    with quiet():
        say()
    assert capfd.readouterr().err == "WARN something"


def test_spark_output_is_printed_if_spark_does_not_start(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(ASKED, raising=False)

    def start() -> None:
        with quiet():
            say()
            raise RuntimeError("no JVM")

    with pytest.raises(RuntimeError, match="no JVM"):
        start()
    assert capfd.readouterr().err == "WARN something"
