"""Child processes of the benchmarks: measured as a tree, and surely ended."""

import sys
from pathlib import Path

import pytest
from benchmarks.harness import procfs
from benchmarks.harness.meter import Meter
from benchmarks.harness.processes import Child, UnavailableError, run_tool
from tests.waiting import LONG_S, until

_BUSY_CHILD = (
    "import time\nwhile time.process_time() < 0.3: pass\nprint('burnt', flush=True)\ntime.sleep(600)"
)
_BURNT_S = 0.28
"""User and system time are told in whole ticks of 10 ms, each rounded down."""
_PARENT = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {_BUSY_CHILD!r}])"


def test_a_tree_is_measured_and_ended_whole(tmp_path: Path) -> None:
    with Child("parent", [sys.executable, "-c", _PARENT], tmp_path / "log") as child:
        child.wait_for("burnt", LONG_S)
        members = procfs.tree(child.pid)
        assert len(members) == 2
        assert child.cpu_seconds() >= _BURNT_S
        assert child.resident_bytes() > 5_000_000
    until(lambda: not any(procfs.tree(pid) for pid in members))


def test_a_child_that_ends_too_early_is_unavailable_with_its_last_lines(tmp_path: Path) -> None:
    with (
        Child("peer", [sys.executable, "-c", "raise SystemExit('no port left')"], tmp_path / "log") as child,
        pytest.raises(UnavailableError, match=r"peer ended with code 1.*no port left"),
    ):
        child.wait_for("ready", LONG_S)


def test_a_tool_that_takes_too_long_is_killed() -> None:
    with pytest.raises(RuntimeError, match=r"took longer than 0 s"):
        run_tool([sys.executable, "-c", "import time; time.sleep(600)"], 0.2)


def test_a_tool_that_fails_shows_its_output() -> None:
    with pytest.raises(RuntimeError, match=r"ended with code 3: half done"):
        run_tool([sys.executable, "-c", "print('half done'); raise SystemExit(3)"], LONG_S)


_MB = 1_000_000
_GROWN_AND_SHRUNK = (
    "import time\nheld = b'x' * 80_000_000\ndel held\nprint('small again', flush=True)\ntime.sleep(600)"
)


def test_the_peak_is_that_since_it_was_forgotten(tmp_path: Path) -> None:
    with Child("peaks", [sys.executable, "-c", _GROWN_AND_SHRUNK], tmp_path / "log") as child:
        child.wait_for("small again", LONG_S)
        assert procfs.peak_bytes_each(child.pid)[child.pid] > 80 * _MB
        procfs.forget_peaks(child.pid)
        assert procfs.peak_bytes_each(child.pid)[child.pid] < 80 * _MB


def test_java_is_told_from_other_programs(tmp_path: Path) -> None:
    text = "echo runs; while :; do sleep 1; done"
    program = tmp_path / "java"
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o700)
    for command, is_java in (([program], True), (["/bin/sh", "-c", text], False)):
        with Child("program", command, tmp_path / f"{is_java}.log") as child:
            child.wait_for("runs", LONG_S)
            assert procfs.is_java(child.pid) == is_java


def test_a_meter_distinguishes_the_working_process_from_its_parent(tmp_path: Path) -> None:
    worker = f"held = b'x' * 80_000_000\n{_BUSY_CHILD}"
    parent = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {worker!r}])"
    with Child("gate", [sys.executable, "-c", parent], tmp_path / "log") as child:
        meter = Meter(child)
        child.wait_for("burnt", LONG_S)
        values = meter.per_100k(50_000)
    assert round(values["cpu_s_per_100k"], 6) >= 2 * _BURNT_S
    assert values["rss_mb"] > 80 > values["supervisor_rss_mb"]
    assert values["sum_rss_mb"] == pytest.approx(values["rss_mb"] + values["supervisor_rss_mb"])


def test_without_a_proxy_there_is_nothing_to_measure() -> None:
    assert Meter(None).per_100k(1000) == {}


def test_measuring_a_proxy_that_has_ended_fails(tmp_path: Path) -> None:
    with Child("gate", [sys.executable, "-c", _BUSY_CHILD], tmp_path / "log") as child:
        meter = Meter(child)
        child.stop()
        with pytest.raises(RuntimeError, match="gate has ended"):
            meter.per_100k(1)
