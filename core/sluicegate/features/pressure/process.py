"""Memory of processes of this machine, from Linux's /proc.

Resident memory is compared with the lowest limit of the process's control groups, or with the memory of the
machine if it has none: at that limit the kernel kills the process.
"""

import os
from pathlib import Path

_LARGEST_FILE = 65_536
_NO_LIMIT = 1 << 60
"""Version 1 control groups report such values for no limit."""
_MEMORY_CONTROLLER = "memory"
_START_TIME = 19
"""Index of the start time among the fields after the command's name in /proc/PID/stat."""


class ProcessError(Exception):
    """A process's memory cannot be read; the message gives the reason."""


class ProcessMemory:
    """Reads the memory usage of a process.

    :param pid: its id; None for this process.
    :param pidfile: file with its id, read each time; replaces `pid`.
    :param limit: memory limit in bytes; 0 to determine it.
    :param root: the directory that contains `/proc` and `/sys`.
    """

    def __init__(
        self,
        pid: int | None = None,
        *,
        pidfile: str | None = None,
        limit: int = 0,
        root: Path = Path("/"),
    ) -> None:
        self._pid = pid
        self._pidfile = pidfile
        self._limit = limit
        self._root = root
        self._started: str | None = None

    async def read(self) -> float:
        """Resident memory as a fraction of the limit.

        :raises ProcessError: if the process does not exist, or another process has its id now.
        """
        resident, limit = await self.usage()
        if limit <= 0:
            raise ProcessError(f"memory limit of process {self._find()} is unknown; set 'limit'")
        return resident / limit

    async def usage(self) -> tuple[int, int]:
        """Resident memory and its limit in bytes; the limit is 0 if it is unknown.

        :raises ProcessError: if the process does not exist, or another process has its id now.
        """
        pid = self._find()
        return self._resident(pid), self._limit or self._find_limit(pid)

    def _find(self) -> int:
        if self._pidfile is not None:
            text = _read(Path(self._pidfile)).strip()
            if not text.isascii() or not text.isdigit():
                raise ProcessError(f"{self._pidfile} has no process id, but {text[:20]!r}")
            return int(text)
        if self._pid is None:
            return os.getpid()
        # The system can reuse the id once the process has ended.
        stat = _read(self._root / f"proc/{self._pid}/stat").rpartition(")")[2].split()
        started = stat[_START_TIME] if len(stat) > _START_TIME else ""
        self._started = self._started or started
        if started != self._started:
            raise ProcessError(f"process id {self._pid} now belongs to another process")
        return self._pid

    def _resident(self, pid: int) -> int:
        fields = _read(self._root / f"proc/{pid}/statm").split()
        try:
            return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")
        except (IndexError, ValueError):
            raise ProcessError(f"/proc/{pid}/statm cannot be read: {' '.join(fields)[:50]!r}") from None

    def _find_limit(self, pid: int) -> int:
        limits = [limit for limit in self._group_limits(pid) if 0 < limit < _NO_LIMIT]
        return min([*limits, *self._machine()], default=0)

    def _machine(self) -> list[int]:
        for line in _read(self._root / "proc/meminfo").splitlines():
            name, _, value = line.partition(":")
            parts = value.split()
            if name == "MemTotal" and parts and parts[0].isdigit():
                return [int(parts[0]) * 1024]
        return []

    def _group_limits(self, pid: int) -> list[int]:
        """Limits of the process's control groups and their parents, for both versions."""
        limits = []
        for line in _read(self._root / f"proc/{pid}/cgroup").splitlines():
            hierarchy, _, rest = line.partition(":")
            controllers, _, path = rest.partition(":")
            if hierarchy == "0" and not controllers:
                base, file = self._root / "sys/fs/cgroup", "memory.max"
            elif _MEMORY_CONTROLLER in controllers.split(","):
                base, file = self._root / "sys/fs/cgroup/memory", "memory.limit_in_bytes"
            else:
                continue
            group = base / path.lstrip("/")
            # Inside a container its own group is mounted as the root, and the path may not exist there.
            for folder in (group, *group.parents):
                limits.append(_number(folder / file))
                if folder == base:
                    break
        return limits


def _number(path: Path) -> int:
    try:
        text = _read(path).strip()
    except ProcessError:
        return 0
    return int(text) if text.isdigit() else 0


def _read(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(_LARGEST_FILE)
    except OSError as error:
        raise ProcessError(f"{path}: {error.strerror}") from None
