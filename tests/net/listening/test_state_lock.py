"""One gateway at a time uses a state directory."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sluicegate.net.listening.handover import directory
from sluicegate.net.listening.state_lock import StateLock, owner
from sluicegate.net.listening.succession import Succession

_HOLDS = """
import sys
from pathlib import Path
from sluicegate.net.listening.state_lock import StateLock
lock = StateLock.take(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


def test_the_lock_of_a_process_that_is_killed_is_free(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _HOLDS, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        assert StateLock.take(tmp_path) is None
        assert owner(tmp_path) == str(process.pid)
        process.kill()
    lock = StateLock.take(tmp_path)
    assert lock is not None
    assert owner(tmp_path) == str(os.getpid())
    lock.release()


def test_a_full_disk_takes_the_holders_name_and_not_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    lock = StateLock.take(tmp_path)
    assert lock is not None
    assert StateLock.take(tmp_path) is None
    assert owner(tmp_path) == "?"
    lock.release()


def test_a_lock_is_held_until_all_have_released_it(tmp_path: Path) -> None:
    first = StateLock.take(tmp_path / "private")
    assert first is not None
    assert (tmp_path / "private").stat().st_mode & 0o777 == 0o700
    second = StateLock(os.dup(first.fileno()))
    first.release()
    first.release()
    assert StateLock.take(tmp_path / "private") is None
    second.release()
    third = StateLock.take(tmp_path / "private")
    assert third is not None
    third.release()


def test_a_lock_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "lock").mkdir()
    with pytest.raises(OSError, match=rf"cannot lock {tmp_path}/lock: Is a directory"):
        StateLock.take(tmp_path)


@pytest.mark.parametrize("replace", [False, True])
def test_a_gateway_that_hands_nothing_over_is_named(tmp_path: Path, replace: bool) -> None:
    lock = StateLock.take(directory(tmp_path))
    assert lock is not None
    remedy = "it hands nothing over" if replace else "end it first, or replace it"
    text = rf"another gateway \(process {os.getpid()}\) uses state_dir {tmp_path}: {remedy}"
    with pytest.raises(OSError, match=text):
        Succession(str(tmp_path), replace=replace)
    lock.release()
    Succession(str(tmp_path), replace=replace).close()
