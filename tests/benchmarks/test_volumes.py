"""Volumes of the benchmarks that are filled while others write to them."""

import errno
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from benchmarks.harness import volumes
from benchmarks.harness.volumes import Filler


def test_a_filler_continues_if_another_writer_takes_the_room_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    now_s = [0.0]

    def full(_file: int, _start: int, size: int) -> None:
        asked.append(size)
        now_s[0] += 1
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    monkeypatch.setattr(os, "statvfs", lambda _path: SimpleNamespace(f_bavail=2, f_frsize=4096))
    clock = SimpleNamespace(monotonic=lambda: now_s[0], sleep=lambda _seconds: None)
    monkeypatch.setattr(volumes, "time", clock)
    Filler(tmp_path).keep(0, 3)
    assert set(asked) == {8192}
