"""No process of any command executes a file of the directory in which the command is started."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from time import monotonic

import psutil
import pytest
from tests.gateway.lab import closed_port
from tests.gateway.running import Gateway, echoing
from tests.waiting import LONG_S

from sluicegate.processes.supervisor import _COMPACTION_S
from sluicegate.runtime.plugins import CHOICE

SLUICEGATE = str(Path(sys.executable).with_name("sluicegate"))
_MODULE = (sys.executable, "-m", "sluicegate")
_LEAVES_A_TRACE = 'open(__file__ + ".executed", "w").close()\n'
_START = """
import os, sys
os.environ.pop("PYTHONSAFEPATH", None)
os.chdir(sys.argv[1])
os.execv({program[0]!r}, [*{program!r}, *sys.argv[3:]])
"""
_FIRST = """
import sys
sys.addaudithook(lambda event, given: event == "import" and print(given[0]))
print(*sys.modules)
import runpy, sluicegate
"""
_SHORT = """\
name: short
title: A second of messages.
topics: [{name: t}]
producers: [{name: p, topic: t, rate: 20/s, size: 1KiB}]
consumers: [{name: c, topic: t}]
phases: [{name: one, duration: 1s}]
policies: {topics: [{name: t, max_message_size: 8KiB}]}
"""


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """A directory with a file for each module of the standard library."""
    return plant(tmp_path / "planted", sys.stdlib_module_names)


def plant(directory: Path, names: Iterable[str]) -> Path:
    directory.mkdir()
    for name in names:
        (directory / f"{name}.py").write_text(_LEAVES_A_TRACE)
    return directory


def executed(directory: Path) -> list[str]:
    return [path.stem for path in directory.glob("*.executed")]


def environment(plugins: str) -> Mapping[str, str]:
    """As of a user, who has not asked Python for a safe path."""
    return {
        **{name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"},
        CHOICE: plugins,
    }


def play(directory: Path, plugins: str, *arguments: str) -> None:
    done = subprocess.run(
        [SLUICEGATE, *arguments],
        cwd=directory,
        env=environment(plugins),
        capture_output=True,
        text=True,
        timeout=LONG_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_planted_file_is_executed_without_a_safe_path(planted: Path) -> None:
    subprocess.run([sys.executable, "-c", "import queue"], cwd=planted, env=environment(""), check=True)
    assert executed(planted) == ["queue.py"]


@pytest.mark.parametrize("program", [(SLUICEGATE,), _MODULE], ids=["program", "module"])
def test_a_gateway_and_its_successor_execute_no_file(tmp_path: Path, program: tuple[str, ...]) -> None:
    """Their workers, and what compacts their decision logs; the plugin comes by PYTHONPATH."""
    names = set(sys.stdlib_module_names)
    if program == _MODULE:  # `-m` asks for what Python imports from there before the first line of ours
        names -= set(subprocess.check_output([sys.executable, "-P", "-c", _FIRST], text=True).split())
    directory = plant(tmp_path / "planted", names)
    with echoing() as upstream:
        gateway = Gateway(tmp_path, upstream, closed_port())
        gateway.start(through=(sys.executable, "-P", "-c", _START.format(program=program), str(directory)))
        try:
            assert gateway.ready, gateway.errors.read_text()
            assert gateway.refused(101)
            gateway.process.send_signal(signal.SIGUSR2)
            assert gateway.process.wait(LONG_S) == 0
            found = re.search(r"another gateway serves from now on.*pid=(\d+)", gateway.errors.read_text())
            assert found is not None
            successor = psutil.Process(int(found[1]))
            assert gateway.refused(101)
            began = monotonic()
            successor.terminate()
            successor.wait(LONG_S)
            took_s = monotonic() - began
        finally:
            gateway.stop()
    assert list((tmp_path / "decisions").rglob("*.parquet")) or took_s > _COMPACTION_S
    assert executed(directory) == []


def test_a_module_of_the_working_directory_is_no_plugin(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(_LEAVES_A_TRACE)
    (tmp_path / "gateway.yaml").write_text("plugins: [mine]\n")
    done = subprocess.run(
        [*_MODULE, "check", "gateway.yaml"],
        cwd=tmp_path,
        env=environment(""),
        capture_output=True,
        check=False,
    )
    assert b"add its folder to PYTHONPATH" in done.stdout + done.stderr
    assert executed(tmp_path) == []


def test_a_scene_of_the_demo_executes_no_file(planted: Path) -> None:
    play(planted, "kafka", "demo", "--plain", "--only", "message-size", "--keep", "kept")
    assert executed(planted) == []


def test_a_comparison_executes_no_file(planted: Path) -> None:
    (planted / "short.yaml").write_text(_SHORT)
    options = ["--embedded", "--systems", "danube", "--doors", "interceptor", "--out", "run"]
    play(planted, "danube,reports", "compare", "run", "short.yaml", *options)
    assert executed(planted) == []
