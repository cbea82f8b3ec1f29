"""Volumes of the benchmarks that are filled while others write to them."""

import errno
import os
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from benchmarks.harness.volumes import Filler


def test_a_filler_continues_if_another_writer_takes_the_room_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def full(_file: int, _start: int, size: int) -> None:
        asked.append(size)
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    monkeypatch.setattr(os, "statvfs", lambda _path: SimpleNamespace(f_bavail=2, f_frsize=4096))
    Filler(tmp_path).keep(0, time.monotonic() + 0.05)
    assert set(asked) == {8192}
