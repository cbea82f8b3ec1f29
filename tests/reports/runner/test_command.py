"""Wrong use of `sluicegate compare run` exits with 2 and a remedy before anything starts."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner
from tests.waiting import LONG_S, until

from sluicegate_reports.runner.command import compare


@pytest.mark.parametrize(
    ("arguments", "remedy"),
    [
        (["run"], "Missing argument 'SCENARIO'"),
        (["run", "mixd"], "one of count-limits"),
        (["run", "mixed", "--systems", "kafka,rabbit"], "unknown system 'rabbit': expected some of kafka"),
        (["run", "mixed", "--doors", "window"], "unknown door 'window': expected some of proxy"),
        (["run", "mixed", "--doors", ","], "no door is named"),
        (["run", "mixed", "--kafka", "localhost"], "write 'host:port'"),
        (["run", "mixed", "--pulsar", "localhost:6650,b:99999"], "'b:99999' is not an address"),
        (["run", "mixed", "--pulsar-admin", "localhost:8080"], "write 'http://host:port'"),
        (["run", "mixed", "--pulsar-admin", "http://localhost:8080"], "give --pulsar too"),
        (["run", "mixed", "--systems", "kafka", "--danube", "localhost:1"], "add danube there, or leave it"),
        (["run", "mixed", "--at", "kafka=localhost:1"], "an option of its own: --kafka localhost:1"),
        (["run", "mixed", "--at", "river=localhost:1"], "systems of other packages are none"),
        (["run", "mixed", "--out", "/dev/null/run"], "give another directory by --out"),
        (["run", "mixed", "--repeat", "0"], "0 is not in the range 1<=x<=100"),
        (["run", "mixed", "--fast"], "No such option"),
    ],
)
def test_wrong_options_end_with_two_and_a_remedy(arguments: list[str], remedy: str) -> None:
    done = CliRunner().invoke(compare, arguments)
    assert done.exit_code == 2, done.output
    assert remedy in " ".join(done.output.split())


def test_a_scenario_with_mistakes_ends_with_two_and_all_of_them(tmp_path: Path) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text("name: wrong\ntopic: []\nphases: [{ name: a, duration: never }]\n")
    done = CliRunner().invoke(compare, ["run", str(file), "--out", str(tmp_path / "run")])
    assert done.exit_code == 2
    assert "did you mean 'topics'?" in done.output
    assert "'never' is not" in done.output
    assert "5 errors, nothing was started" in done.output
    assert not (tmp_path / "run").exists()


def test_a_directory_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("mine")
    done = CliRunner().invoke(compare, ["run", "mixed", "--out", str(tmp_path)])
    assert done.exit_code == 2
    assert "is not empty: give a new or empty directory by --out" in " ".join(done.output.split())
    assert [each.name for each in tmp_path.iterdir()] == ["kept"]


def test_repetitions_have_directories_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    played: list[Path] = []

    def play(loaded: object, arms: object, directory: Path, *others: object) -> int:
        assert not any(directory.iterdir())
        played.append(directory)
        return len(played) - 1

    monkeypatch.setattr("sluicegate_reports.runner.command._play", play)
    arguments = ["run", "mixed", "--repeat", "3", "--out", str(tmp_path / "runs")]
    done = CliRunner().invoke(compare, arguments)
    assert played == [tmp_path / "runs" / f"run-{number}" for number in (1, 2, 3)]
    assert "repetition 3 of 3" in done.output
    # In one of them nothing could be played.
    assert done.exit_code == 1
    monkeypatch.setattr("sluicegate_reports.runner.command._play", lambda *given: 1)
    assert CliRunner().invoke(compare, ["run", "mixed", "--out", str(tmp_path / "one")]).exit_code == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_run_that_a_signal_ends_has_ended_its_child_processes(
    tmp_path: Path, number: signal.Signals
) -> None:
    # Whatever the tests were started by may ignore SIGHUP.
    start = (
        "import signal; from sluicegate.cli import main; signal.signal(signal.SIGHUP, signal.SIG_DFL); main()"
    )
    command = [sys.executable, "-c", start, "compare", "run", "mixed"]
    options = [
        "--embedded",
        "--systems",
        "danube",
        "--doors",
        "interceptor",
        "--out",
        os.fspath(tmp_path / "run"),
    ]
    with subprocess.Popen([*command, *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        plan = tmp_path / "run" / "arms" / "danube-interceptor" / "plan.json"
        until(lambda: plan.exists() or process.poll() is not None)
        started = psutil.Process(process.pid)
        # What plays the plan begins after it is written.
        until(lambda: started.children(recursive=True) or process.poll() is not None)
        family = started.children(recursive=True)
        process.send_signal(number)
        output, _ = process.communicate(timeout=LONG_S)
    assert process.returncode == 1, output
    assert family
    assert psutil.wait_procs(family, timeout=LONG_S)[1] == []


def test_a_folder_named_like_a_scenario_does_not_hide_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mixed").mkdir()
    done = CliRunner().invoke(compare, ["run", "mixed", "--out", str(tmp_path)])
    assert "is not empty: give a new or empty directory by --out" in " ".join(done.output.split())


def test_scenarios_are_listed_with_what_they_show() -> None:
    done = CliRunner().invoke(compare, ["scenarios"])
    assert done.exit_code == 0
    assert "noisy-neighbour" in done.output
    assert "One tenant floods its topic" in done.output
