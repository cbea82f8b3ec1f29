"""CPU time and memory of a process and all its descendants, from /proc (Linux)."""

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
    ticks = sum(int(value) for stat in tree(root).values() for value in stat[_OWN_AND_WAITED_FOR_TIMES])
    return ticks / _TICKS_PER_S


def resident_bytes(root: int) -> int:
    """Resident memory of the tree; pages that its processes share are counted for each of them."""
    return sum(int(stat[_RESIDENT_PAGES]) for stat in tree(root).values()) * _PAGE_BYTES
