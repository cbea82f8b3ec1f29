"""The demo as users run it: exit code, what it prints, what it leaves, and that it leaves nothing running."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil
import pytest
from click.testing import CliRunner
from tests.demo.running import Ended, command, demo, environment, planted
from tests.waiting import LONG_S

from sluicegate.cli import main
from sluicegate.decisions.reading import read_decisions
from sluicegate.demo.ports import RANGE, free_ports
from sluicegate.demo.volume import free_bytes

pytestmark = pytest.mark.slow


def assert_right(done: Ended, *scenes: str) -> list[dict[str, Any]]:
    """That all is as the policies say, printed in ASCII; gives the rows of all decision logs."""
    assert done.code == 0, done.printed + done.errors
    assert done.errors == ""
    assert done.printed.isascii()
    # On a busy machine a scene may be unsaturated. It is no failure, and no success.
    verdicts = {scene: done.verdict(scene) for scene in scenes}
    assert set(verdicts.values()) <= {"ok", "not saturated here"}, verdicts
    total = f"{len(scenes)} observations are what the policies say"
    assert re.search(rf"^\d+ of {total}", done.printed.splitlines()[-1])
    for line in re.findall(r"^\$ sluicegate explain .*$", done.printed, re.MULTILINE):
        again = CliRunner().invoke(main, line.split()[2:], catch_exceptions=False)
        assert again.exit_code == 0
        assert again.output.strip() in done.printed
    rows: list[dict[str, Any]] = []
    for file in done.directory.rglob("gateway.yaml"):
        assert CliRunner().invoke(main, ["check", str(file)]).exit_code == 0
        rows += read_decisions(file.parent / "state" / "decisions").to_pylist()
    return rows


@pytest.fixture
def quiet(tmp_path: Path) -> Iterator[Path]:
    """A directory on a volume that other programs hardly write to, if there is one."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK) or free_bytes(memory) < 1 << 31:
        yield tmp_path
        return
    with TemporaryDirectory(dir=memory) as directory:
        yield Path(directory)


def assert_filled(done: Ended, rows: list[dict[str, Any]]) -> None:
    """That the volume went from open by throttling to a pause, in the log and in the chart."""
    held = [row for row in rows if row["policy"] == "storage_quota"]
    assert {row["action"] for row in held} == {"delay"}
    assert {row["reason"] for row in held} == {"limit_reached", "precondition"}
    assert {row["gateway"] for row in held} == {"kafka-storage-quota"}
    states = re.search(r"^ {9}(\|.*)$", done.printed, re.MULTILINE)
    assert states is not None
    wanted = ["open", "throttle", "pause"]
    assert [state for state in wanted if f"|{state[:3]}" in states[1]] == wanted
    assert "rows delay by storage_quota, factor 0.00 to " in done.printed


@pytest.mark.longer
@pytest.mark.seed("S1-123", "S1-124", "S1-125", "S1-126", "S4-010", "S4-011", "S4-012")
def test_kafka(quiet: Path) -> None:
    scenes = ("producers", "message-size", "publish-rate", "consumers-topic", "live-change", "storage-quota")
    # A long path, as sockets have names of limited length.
    done = demo(quiet / ("long-" * 20) / "kept", "kafka", *scenes)
    rows = assert_right(done, *scenes)
    assert "librdkafka mock cluster, not a Kafka broker" in done.printed
    assert "[Error 44] PolicyViolationError" in done.about("producers")
    assert "[Error 10] MessageSizeTooLargeError" in done.about("message-size")
    assert "$ sluicegate explain " in done.printed
    # Where other programs fill the volume, the scene says so and shows less.
    if done.verdict("storage-quota") == "ok":
        assert_filled(done, rows)
    assert not list(done.directory.rglob("ballast"))
    left = {file.name for file in done.directory.iterdir()}
    assert left == {
        *("gateway.yaml", "gateway.log", "state", "backend-kafka.log", "clients-kafka.log"),
        "kafka-storage-quota",
    }


@pytest.mark.longer
@pytest.mark.seed("S1-123", "S1-124", "S1-126", "S5-041", "S5-042")
def test_pulsar(tmp_path: Path) -> None:
    scenes = ("message-size", "subscriptions", "dispatch-rate", "unacked", "adaptive-throttling")
    done = demo(tmp_path / "kept", "pulsar", *scenes)
    rows = assert_right(done, *scenes)
    assert "in-memory reference broker, not Pulsar" in done.printed
    held = [row for row in rows if row["policy"] == "adaptive_publish_throttling"]
    assert {row["action"] for row in held} == {"delay"}
    least = min(row["factor"] for row in held)
    assert least < 0.2
    if "not saturated" not in done.printed:
        assert f"rows delay by adaptive_publish_throttling, factor {least:.2f} to " in done.printed


@pytest.mark.longer
@pytest.mark.seed("S1-123", "S1-124", "S1-125", "S1-126")
def test_danube(tmp_path: Path) -> None:
    scenes = (
        "message-size",
        "publish-rate-reject",
        "live-change",
        "consumers-subscription",
        "dispatch-rate-drop",
        "failover",
    )
    done = demo(tmp_path / "kept", "danube", *scenes)
    rows = assert_right(done, *scenes)
    assert "in-memory reference broker, not Danube" in done.printed
    assert "INVALID_ARGUMENT: " in done.about("message-size")
    assert "RESOURCE_EXHAUSTED: " in done.about("consumers-subscription")
    assert {row["action"] for row in rows} >= {"allow", "reject", "drop"}
    # On a machine that stood still the topic may have moved before, and is given to that broker again.
    assert "owner_changed" in {row["operation"] for row in rows}
    assert "UNAVAILABLE: " in done.about("failover")


ENDLESS = """
import sys

if "sluicegate.demo.player" in sys.orig_argv:
    from sluicegate.demo.kinds import publish_rates

    publish_rates._PLAY_S = 600.0
"""
"""The scene is still playing when the signal comes, however late that is."""


@pytest.mark.parametrize(
    ("number", "ignored"),
    [
        pytest.param(signal.SIGINT, (), marks=pytest.mark.longer),
        # A shell that starts a program in the background has it ignore SIGINT.
        (signal.SIGTERM, (signal.SIGINT,)),
        pytest.param(signal.SIGHUP, (), marks=pytest.mark.longer),
    ],
)
def test_a_signal_ends_all_processes(
    tmp_path: Path, number: signal.Signals, ignored: tuple[signal.Signals, ...]
) -> None:
    start = "import os, signal, sys\n"
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        what = "SIG_IGN" if each in ignored else "SIG_DFL"
        start += f"signal.signal({each.value}, signal.{what})\n"
    start += "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    process = subprocess.Popen(
        [sys.executable, "-c", start, *command(tmp_path / "kept", "publish-rate")[1:]],
        env=environment("kafka", planted(tmp_path / "plant", ENDLESS)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("playing"):
            break
    children = psutil.Process(process.pid).children(recursive=True)
    assert {"sluicegate.demo.player", "sluicegate.demo.backend", "sluicegate"} <= {
        child.cmdline()[3] for child in children
    }
    process.send_signal(number)
    _, errors = process.communicate(timeout=LONG_S)
    assert process.returncode == 130
    assert "the demo was interrupted" in errors
    assert "Traceback" not in errors
    _, alive = psutil.wait_procs(children, timeout=LONG_S)
    assert alive == []


def test_without_a_free_port_it_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = free_ports(8)
    with ExitStack() as taken:
        for port in range(first, first + 8):
            taken.enter_context(socket.create_server(("127.0.0.1", port)))
        monkeypatch.setenv(RANGE, f"{first}-{first + 8}")
        done = demo(tmp_path / "kept", "kafka", "message-size")
    assert done.code == 1
    assert "Traceback" not in done.errors
    assert f"consecutive free ports between {first} and {first + 8}: close some programs" in done.errors


def test_overrides_of_a_real_configuration_do_not_reach_the_demo(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    done = subprocess.run(
        command(tmp_path / "kept", "message-size"),
        env=environment("danube", None, SLUICEGATE__STATE_DIR=str(elsewhere)),
        capture_output=True,
        text=True,
        timeout=LONG_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert not elsewhere.exists()
