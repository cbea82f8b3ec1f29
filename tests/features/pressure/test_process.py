"""Memory of real processes, and of others as `/proc` and `/sys` would tell of them."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluicegate.features.pressure.process import ProcessError, ProcessMemory

MIB = 1 << 20
PAGE = os.sysconf("SC_PAGE_SIZE")
pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


@pytest.fixture
def other() -> Iterator[subprocess.Popen[str]]:
    """A process that holds 64 MiB and ends when its input does."""
    code = "import sys; held = b'x' * (64 << 20); print(len(held), flush=True); sys.stdin.read()"
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == f"{64 * MIB}\n"
    yield process
    process.communicate()


@pytest.mark.seed("S5-021")
async def test_this_process() -> None:
    share = await ProcessMemory(limit=1 << 40).read()
    assert 5 * MIB < share * (1 << 40) < 8 << 30
    before = await ProcessMemory(limit=MIB).read()
    held = b"x" * (100 * MIB)
    assert await ProcessMemory(limit=MIB).read() - before > 60
    assert len(held) == 100 * MIB
    assert 0 < await ProcessMemory().read() < 1


@pytest.mark.seed("S5-021")
async def test_another_process_by_its_id_or_its_file(other: "subprocess.Popen[str]", tmp_path: Path) -> None:
    assert 64 < await ProcessMemory(other.pid, limit=MIB).read() < 200
    file = tmp_path / "broker.pid"
    file.write_text(f"{other.pid}\n")
    by_file = ProcessMemory(pidfile=os.fspath(file), limit=MIB)
    assert 64 < await by_file.read() < 200
    file.write_text(str(os.getpid()))
    assert await by_file.read() > 0
    other.communicate()
    with pytest.raises(ProcessError, match=f"/proc/{other.pid}/"):
        await ProcessMemory(other.pid, limit=MIB).read()


@pytest.mark.seed("S5-055")
@pytest.mark.parametrize("content", ["", "no", "12 13", "-5", "\uff19"])
async def test_a_file_without_an_id(content: str, tmp_path: Path) -> None:
    file = tmp_path / "pid"
    file.write_text(content)
    with pytest.raises(ProcessError, match="has no process id"):
        await ProcessMemory(pidfile=os.fspath(file)).read()
    with pytest.raises(ProcessError, match="No such file"):
        await ProcessMemory(pidfile=os.fspath(tmp_path / "none")).read()


class Machine:
    """A tree like `/`, with one process 7."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.write("proc/7/stat", "7 (some) name) S " + " ".join(str(n) for n in range(4, 50)))
        self.write("proc/7/statm", f"999 {100 * MIB // PAGE} 1 1 0 1 0")
        self.write("proc/meminfo", "MemTotal:        1024000 kB\nMemFree:  1 kB\n")
        self.write("proc/7/cgroup", "0::/\n")

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    async def limit(self) -> float:
        return round(100 * MIB / await ProcessMemory(7, root=self.root).read())


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.mark.seed("S5-021")
async def test_the_tightest_limit_counts(machine: Machine) -> None:
    assert await machine.limit() == 1_024_000 * 1024
    machine.write("proc/7/cgroup", "0::/system.slice/broker.service\n")
    machine.write("sys/fs/cgroup/system.slice/broker.service/memory.max", "max\n")
    assert await machine.limit() == 1_024_000 * 1024
    machine.write("sys/fs/cgroup/system.slice/memory.max", f"{500 * MIB}\n")
    assert await machine.limit() == 500 * MIB
    machine.write("sys/fs/cgroup/system.slice/broker.service/memory.max", f"{200 * MIB}\n")
    assert await machine.limit() == 200 * MIB
    machine.write("sys/fs/cgroup/memory.max", f"{150 * MIB}\n")
    assert await machine.limit() == 150 * MIB


@pytest.mark.seed("S5-021")
async def test_control_groups_of_version_1(machine: Machine) -> None:
    machine.write("proc/7/cgroup", "12:cpu,cpuacct:/x\n11:memory:/docker/abc\n0::/\n")
    machine.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")
    assert await machine.limit() == 1_024_000 * 1024
    machine.write("sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", f"{300 * MIB}\n")
    assert await machine.limit() == 300 * MIB


@pytest.mark.seed("S5-055")
async def test_what_cannot_be_read_is_not_known(machine: Machine) -> None:
    memory = ProcessMemory(7, root=machine.root)
    assert await memory.read() > 0
    machine.write("proc/7/statm", "garbage")
    with pytest.raises(ProcessError, match="cannot be read: 'garbage'"):
        await memory.read()
    machine.write("proc/7/statm", "1 2")
    machine.write("proc/meminfo", "nothing")
    with pytest.raises(ProcessError, match="memory limit of process 7 is unknown; set 'limit'"):
        await memory.read()
    machine.write("proc/7/stat", "7 (x) S " + "0 " * 40)
    with pytest.raises(ProcessError, match="process id 7 now belongs to another process"):
        await memory.read()
