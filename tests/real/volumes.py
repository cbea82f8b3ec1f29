"""Small file systems that really fill."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

MIB = 1 << 20


@contextmanager
def mounted(where: Path, mib: int) -> Iterator[Path]:
    """A file system of so many MiB, as long as the block runs; without the right to mount, the test skips."""
    where.mkdir()
    mount = shutil.which("mount")
    if os.geteuid() != 0 or mount is None:
        pytest.skip("a small file system can be mounted by root only")
    done = subprocess.run(
        [mount, "-t", "tmpfs", "-o", f"size={mib}m", "sluicegate-test", os.fspath(where)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        pytest.skip(f"a small file system cannot be mounted here: {done.stderr.strip()}")
    try:
        yield where
    finally:
        subprocess.run(["umount", "-l", os.fspath(where)], check=True)


class Filler:
    """A file that takes room on a volume.

    :param directory: on the volume.
    """

    def __init__(self, directory: Path) -> None:
        self._file = directory / "filler"

    def leave(self, free: int) -> None:
        """Make the file so large that `free` bytes are left, or as small as it takes."""
        usage = os.statvfs(self._file.parent)
        size = self._file.stat().st_size if self._file.exists() else 0
        wanted = size + usage.f_bavail * usage.f_frsize - free
        with self._file.open("ab") as file:
            if wanted > size:
                os.posix_fallocate(file.fileno(), 0, wanted)
            else:
                file.truncate(max(0, wanted))

    def remove(self) -> None:
        """Give all room back."""
        self._file.unlink(missing_ok=True)
