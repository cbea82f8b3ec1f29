"""CPU time and memory of a process and all its descendants, from /proc (Linux)."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

_PROC = Path("/proc")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

# Positions in /proc/PID/stat counted after the command name, which may itself hold blanks and brackets.
_STATE = 0
_PARENT = 1
_OWN_AND_WAITED_FOR_TIMES = slice(11, 15)
_RESIDENT_PAGES = 21
_ZOMBIE = "Z"
_FORGET_PEAK = "5"
_PEAK = "VmHWM:"


def _stats() -> Iterator[tuple[int, list[str]]]:
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "stat").read_text()
            except OSError:
                continue  # it ended while we were looking
            fields = text[text.rindex(")") + 2 :].split()
            if fields[_STATE] != _ZOMBIE:
                yield int(entry.name), fields


def tree(root: int) -> dict[int, list[str]]:
    """The stat fields of `root` and of every process below it; empty if it has ended."""
    fields = dict(_stats())
    members = {root} & fields.keys()
    grown = True
    while grown:
        below = {pid for pid, stat in fields.items() if int(stat[_PARENT]) in members}
        grown = not below <= members
        members |= below
    return {pid: fields[pid] for pid in members}


def cpu_seconds(root: int) -> float:
    """User and system seconds used so far by the tree, with those of children it has waited for."""
    return sum(cpu_seconds_each(root).values())


def cpu_seconds_each(root: int) -> dict[int, float]:
    """CPU seconds so far, by process."""
    return {
        pid: sum(int(value) for value in stat[_OWN_AND_WAITED_FOR_TIMES]) / _TICKS_PER_S
        for pid, stat in tree(root).items()
    }


def thread_cpu_ns(pid: int) -> int:
    """CPU time of a process's first thread so far, in ns: finer than the ticks of the others."""
    return int((_PROC / str(pid) / "task" / str(pid) / "schedstat").read_text().split()[0])


def worker(root: int) -> int:
    """The process of a gateway that relays.

    :param root: its supervisor.
    :raises RuntimeError: if there is none.
    """
    for pid in workers(root):
        return pid
    raise RuntimeError("the gate has no worker")


def workers(root: int) -> list[int]:
    """All processes of a gateway that relay.

    :param root: its supervisor.
    """
    return [pid for pid in tree(root) if b"worker_main" in _command_line(pid)]


def _command_line(pid: int) -> bytes:
    with contextlib.suppress(OSError):  # it ended while we were looking
        return (_PROC / str(pid) / "cmdline").read_bytes()
    return b""


def resident_bytes(root: int) -> int:
    """Resident memory of the tree; pages that its processes share are counted for each of them."""
    return sum(int(stat[_RESIDENT_PAGES]) for stat in tree(root).values()) * _PAGE_BYTES


def forget_peaks(root: int) -> None:
    """Reset the peaks of `peak_bytes_each`; where the kernel cannot, they stay those since the start."""
    for pid in tree(root):
        with contextlib.suppress(OSError):  # it ended, or the kernel was built without it
            (_PROC / str(pid) / "clear_refs").write_text(_FORGET_PEAK)


def peak_bytes_each(root: int) -> dict[int, int]:
    """The most resident memory of each process of the tree since `forget_peaks`, or since it began."""
    return {pid: peak for pid in tree(root) if (peak := _peak_bytes(pid))}


def is_java(pid: int) -> bool:
    """Whether a process is Java; False if it has ended."""
    with contextlib.suppress(OSError):
        return (_PROC / str(pid) / "comm").read_text().strip() == "java"
    return False


def _peak_bytes(pid: int) -> int:
    with contextlib.suppress(OSError):  # it ended while we were looking
        for line in (_PROC / str(pid) / "status").read_text().splitlines():
            if line.startswith(_PEAK):
                return int(line.split()[1]) * 1024
    return 0
