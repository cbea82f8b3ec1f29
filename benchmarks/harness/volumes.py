"""Small file systems of a broker's own, which really fill."""

import errno
import os
import shutil
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path

from benchmarks.harness.processes import UnavailableError

MIB = 1 << 20
_KEEP_EVERY_S = 0.02


def mount_volume(stack: ExitStack, where: Path, size: int) -> Path:
    """Mount a tmpfs; it is taken away with `stack`.

    :param where: its mount point; made here.
    :param size: bytes, a multiple of the page size.
    :raises UnavailableError: if that is not possible here.
    """
    mount = shutil.which("mount")
    if mount is None or os.geteuid() != 0:
        raise UnavailableError("a small volume for the broker can be mounted by root only (mount -t tmpfs)")
    where.mkdir(parents=True)
    command = [mount, "-t", "tmpfs", "-o", f"size={size}", "sluicegate-volume", os.fspath(where)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise UnavailableError(f"a small volume cannot be mounted here: {done.stderr.strip()}")
    stack.callback(subprocess.run, ["umount", "-l", os.fspath(where)], check=True)
    return where


class Filler:
    """A file that takes room on a volume.

    :param directory: on the volume.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / "filler"

    def leave(self, free: int) -> None:
        """Make the file so large that `free` bytes are left, or as small as it takes."""
        usage = os.statvfs(self._path.parent)
        size = self._path.stat().st_size if self._path.exists() else 0
        wanted = max(0, size + usage.f_bavail * usage.f_frsize - free)
        with self._path.open("ab") as file:
            if wanted > size:
                os.posix_fallocate(file.fileno(), 0, wanted)
            else:
                file.truncate(wanted)

    def keep(self, free: int, until: float) -> None:
        """Leave so many bytes free until then (monotonic), whatever else is written meanwhile."""
        while time.monotonic() < until:
            try:
                self.leave(free)
            except OSError as error:
                if error.errno != errno.ENOSPC:  # other writers have taken the room first
                    raise
            time.sleep(_KEEP_EVERY_S)

    def remove(self) -> None:
        """Give all room back."""
        self._path.unlink(missing_ok=True)
