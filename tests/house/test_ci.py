"""The check of a fresh machine installs what is missing there, and stops if it cannot."""

import os
import shutil
import stat
import subprocess
from pathlib import Path

import psutil
import pytest
from tests.conftest import is_longer
from tests.waiting import LONG_S, until

ROOT = Path(__file__).resolve().parents[2]
_HAS_HAPROXY = os.access("/usr/sbin/haproxy", os.X_OK)
"""The one place where the script looks that a test cannot put something else into."""


class Machine:
    """A machine with nothing on it but what a test says: every command is a stub that notes its call.

    :param directory: an empty one.
    :param installed: commands that are there.
    :param user: number of the user; 0 is root.
    :param venv: whether its Python can make environments.
    """

    def __init__(self, directory: Path, *installed: str, user: int = 0, venv: bool = True) -> None:
        self._bin, self._calls = directory / "bin", directory / "calls"
        self.artefacts = directory / "artefacts"
        """Where the check is told to keep what it leaves behind."""
        self._bin.mkdir()
        for name in ("bash", "dirname", "env", "mkdir"):
            found = shutil.which(name)
            assert found is not None
            (self._bin / name).symlink_to(found)
        self.put("id", f"echo {user}")
        self.put("sudo", 'shift\n"$@"')
        self.put("python3", f"exit {0 if venv else 1}")
        self.put("apt-get", "true")
        for name in installed:
            self.put(name)

    def put(self, name: str, does: str = "true") -> None:
        """Install a stub."""
        stub = self._bin / name
        stub.write_text(f'#!/bin/sh\necho "{name} $*" >>"{self._calls}"\n{does}\n')
        stub.chmod(stub.stat().st_mode | stat.S_IXUSR)

    def install_by_apt_get(self, *names: str) -> None:
        """Have apt-get install these commands when it is told to install anything."""
        for name in names:
            self.put(name)
            (self._bin / name).rename(self._bin / f"{name}.not-yet")
        lines = [f'/bin/mv "{self._bin}/{name}.not-yet" "{self._bin}/{name}"' for name in names]
        self.put("apt-get", "\n".join(['[ "$1" = install ] || exit 0', *lines]))

    def run(self, **further: str) -> "subprocess.CompletedProcess[str]":
        """Run the check; its output holds both streams.

        :param further: environment variables.
        """
        return subprocess.run(
            [self._bin / "bash", ROOT / ".ci" / "run"],
            env={"PATH": str(self._bin), "SLUICEGATE_ARTEFACTS": str(self.artefacts), **further},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LONG_S,
            check=False,
        )

    def calls(self, *names: str) -> list[str]:
        """Calls of these commands, in order."""
        lines = self._calls.read_text().splitlines()
        return [line for line in lines if line.split()[0] in names]


_ALL = (
    "make",
    "javac",
    "mvn",
    "haproxy",
    "chromium",
    "curl",
    "h2load",
    "node",
    "etcd",
    "promtool",
    "redis-server",
    "mosquitto_pub",
)
_BUILDING = ["make jars franz-go grpc-go pulsar-go .venv/bin/tox --jobs=4 --output-sync=target"]
_SIDE_BY_SIDE = ["make demo demo-all", "make extras", "make test"]
_INSTALL = "apt-get install -y -qq --no-install-recommends"


def without_haproxy(packages: str) -> str:
    """The packages that are asked for where haproxy is on the real machine."""
    return packages.replace(" haproxy", "") if _HAS_HAPROXY else packages


def test_on_a_bare_machine_all_is_installed_before_anything_runs(tmp_path: Path) -> None:
    machine = Machine(tmp_path, venv=False)
    machine.install_by_apt_get(*_ALL)
    done = machine.run()
    assert done.returncode == 0, done.stdout
    wanted = without_haproxy(
        "make default-jdk-headless maven haproxy chromium curl nghttp2-client nodejs etcd-server prometheus "
        "redis-server mosquitto mosquitto-clients python3-venv"
    )
    *before, _, _, _ = calls = machine.calls("apt-get", "make")
    assert before == ["apt-get update -qq", f"{_INSTALL} {wanted}", *_BUILDING]
    assert sorted(calls[-3:]) == _SIDE_BY_SIDE
    assert f"installing: {wanted}" in done.stdout
    assert "== CI passed" in done.stdout


def test_where_nothing_is_missing_nothing_is_installed(tmp_path: Path) -> None:
    machine = Machine(tmp_path, *_ALL)
    done = machine.run()
    assert done.returncode == 0, done.stdout
    *before, _, _, _ = calls = machine.calls("apt-get", "sudo", "make")
    assert before == _BUILDING
    assert sorted(calls[-3:]) == _SIDE_BY_SIDE
    assert "nothing is missing" in done.stdout


@pytest.mark.parametrize(("missing", "package"), [("javac", "default-jdk-headless"), ("mvn", "maven")])
def test_only_what_is_missing_is_installed(tmp_path: Path, missing: str, package: str) -> None:
    """A Java that only runs programs is not enough: the tests compile clients."""
    machine = Machine(tmp_path, "java", *(name for name in _ALL if name != missing))
    machine.install_by_apt_get(missing)
    assert machine.run().returncode == 0
    assert machine.calls("apt-get") == ["apt-get update -qq", f"{_INSTALL} {package}"]


def measures(machine: Machine, ms: int) -> None:
    """Have the piece of work take so long, and `make` tell what it is told of the machine."""
    machine.put("python3", f'[ "$1" != .ci/speed.py ] || echo {ms}')
    machine.put("make", 'echo "$1 on a slow machine: ${SLUICEGATE_SLOW_MACHINE:-no}"')


def test_a_fast_machine_leaves_nothing_out(tmp_path: Path) -> None:
    machine = Machine(tmp_path, *_ALL)
    measures(machine, 2_100)
    shown = machine.run().stdout
    assert "fast: the fixed work took 2100 ms" in shown
    assert "test on a slow machine: no" in shown
    assert "left out, as" not in shown


def test_a_slow_machine_says_at_the_end_what_it_left_out(tmp_path: Path) -> None:
    machine = Machine(tmp_path, *_ALL)
    measures(machine, 9_000)
    machine.artefacts.mkdir()
    told = machine.artefacts / "left-out.txt"
    told.write_text("of an earlier run\n")
    machine.put("make", f'[ "$1" != test ] || echo "a test with $SLUICEGATE_SLOW_MACHINE" >"{told}"')
    shown = machine.run().stdout
    assert "slow: the fixed work took 9000 ms" in shown
    assert "== left out, as this machine is slow\na test with 1\n== CI passed" in shown
    assert "of an earlier run" not in shown


def test_a_verdict_that_is_given_is_not_measured(tmp_path: Path) -> None:
    machine = Machine(tmp_path, *_ALL)
    measures(machine, 9_000)
    shown = machine.run(SLUICEGATE_SLOW_MACHINE="0").stdout
    assert "not measured" in shown
    assert "test on a slow machine: 0" in shown


def test_who_is_not_root_installs_by_sudo_without_a_question(tmp_path: Path) -> None:
    machine = Machine(tmp_path, *_ALL, user=1000, venv=False)
    assert machine.run().returncode == 0
    assert machine.calls("sudo") == [
        "sudo -n apt-get update -qq",
        f"sudo -n env DEBIAN_FRONTEND=noninteractive {_INSTALL} python3-venv",
    ]


@pytest.mark.parametrize("failing", ["update", "install"])
def test_if_it_cannot_be_installed_nothing_runs_and_the_check_fails(tmp_path: Path, failing: str) -> None:
    machine = Machine(tmp_path, *(name for name in _ALL if name != "mvn"))
    machine.put("apt-get", f'[ "$1" != {failing} ] || exit 100')
    done = machine.run()
    assert done.returncode == 100
    assert "== CI FAILED (exit code 100)" in done.stdout
    assert machine.calls("make") == []


def test_a_step_that_fails_ends_the_check(tmp_path: Path) -> None:
    machine = Machine(tmp_path, *_ALL)
    machine.put("make", '[ "$1" != jars ] || exit 2')
    done = machine.run()
    assert done.returncode == 2
    assert machine.calls("make") == _BUILDING
    assert "== CI FAILED (exit code 2)" in done.stdout


def test_if_the_tests_fail_what_runs_beside_them_ends(tmp_path: Path) -> None:
    machine = Machine(tmp_path, *_ALL)
    pid = tmp_path / "pid"
    beside = f'[ "$1" != extras ] || {{ echo $$ >"{pid}"; exec /bin/sleep {LONG_S}; }}'
    tests = f'[ "$1" != test ] || {{ until [ -s "{pid}" ]; do /bin/sleep 0.01; done; exit 2; }}'
    machine.put("make", f"{beside}\n{tests}")
    done = machine.run()
    assert done.returncode == 2
    assert "== CI FAILED (exit code 2)" in done.stdout
    gone = int(pid.read_text())
    until(lambda: not psutil.pid_exists(gone), "what ran beside the tests has ended")
    assert "make demo demo-all" not in machine.calls("make")


@pytest.mark.parametrize("failing", ["demo", "extras"])
def test_a_later_step_that_fails_ends_the_check(tmp_path: Path, failing: str) -> None:
    machine = Machine(tmp_path, *_ALL)
    machine.put("make", f'[ "$1" != {failing} ] || {{ echo "$1 is broken"; exit 2; }}')
    done = machine.run()
    assert done.returncode != 0
    assert f"{failing} is broken" in done.stdout
    assert "== CI FAILED" in done.stdout


@pytest.mark.parametrize("client", ["first", "second"])
def test_one_marker_is_enough_to_leave_a_test_out(request: pytest.FixtureRequest, client: str) -> None:
    request.node.add_marker(pytest.mark.longer(but="first"))
    assert is_longer(request.node) == (client == "second")
    request.node.add_marker(pytest.mark.longer)
    assert is_longer(request.node)
