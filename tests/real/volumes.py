"""Small file systems that really fill, for tests."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from benchmarks.harness.processes import UnavailableError
from benchmarks.harness.volumes import MIB, Filler, mount_volume

__all__ = ["MIB", "Filler", "mounted"]


@contextmanager
def mounted(where: Path, mib: int) -> Iterator[Path]:
    """A file system of so many MiB, as long as the block runs; without the right to mount, the test skips."""
    with ExitStack() as stack:
        try:
            volume = mount_volume(stack, where, mib * MIB)
        except UnavailableError as error:
            pytest.skip(str(error))
        yield volume
