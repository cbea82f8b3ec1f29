"""A separate process makes Parquet files; shutdown waits for it at most as configured."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.test_embedded import config
from tests.waiting import LONG_S, until_so

from sluicegate.decisions.spool import Spool, parquet_files, partition, spools
from sluicegate.runtime import compacting
from sluicegate.runtime.compacting import Compactor, log_directory

_sleep = asyncio.sleep
BATCH = (
    b'{"time":[1,2],"namespace":"n","topic":"t","operation":"publish","action":"allow","factor":1.0,"delay":0,'
    b'"bytes":1,"messages":1,"policy_version":1,"decisions":1,"window":0}\n'
)


def begin_spool(directory: Path, name: str) -> Spool:
    constants = {"run": "r", "system": "echo", "door": "proxy", "gateway": "b1"}
    spool = Spool(partition(directory, "r", "echo"), name, constants)
    spool.write(BATCH)
    return spool


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def directory(state: Path) -> Path:
    return log_directory(config(1, state))


@pytest.fixture
def compactor(state: Path, monkeypatch: pytest.MonkeyPatch) -> Compactor:
    monkeypatch.setattr(compacting, "_PERIOD_S", 0.02)
    return Compactor(config(1, state))


@asynccontextmanager
async def watching(compactor: Compactor) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.ensure_future(compactor.watch())
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def note_pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long the compactor would have slept; it goes on at once instead."""
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        await _sleep(0)

    monkeypatch.setattr("sluicegate.runtime.compacting.asyncio.sleep", pause)
    return pauses


async def until_slept(holds: Callable[[], object]) -> None:
    """Wait while pauses are noted: as `until_so`, which would be noted too."""
    async with asyncio.timeout(LONG_S):
        while not holds():
            await _sleep(0.002)


def put_instead(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    """Have another program run in place of the one that compacts."""
    start = asyncio.create_subprocess_exec

    def other(*_: str, **options: int) -> Awaitable[asyncio.subprocess.Process]:
        return start(sys.executable, "-c", program, stdin=options["stdin"], stderr=options["stderr"])

    monkeypatch.setattr(asyncio, "create_subprocess_exec", other)


async def test_closed_spools_become_parquet(directory: Path, compactor: Compactor) -> None:
    begin_spool(directory, "left").close()
    live = begin_spool(directory, "live")
    async with watching(compactor):
        await until_so(lambda: spools(directory) == [live.path])
        assert [path.stem for path in parquet_files(directory)] == ["left"]
        live.close()
        await until_so(lambda: not spools(directory))
    assert [path.stem for path in parquet_files(directory)] == ["left", "live"]


async def test_old_files_are_deleted_at_the_start(directory: Path, compactor: Compactor) -> None:
    begin_spool(directory, "old").close()
    await compactor.finish(LONG_S)
    [old] = parquet_files(directory)
    os.utime(old, (0, 0))
    async with watching(compactor):
        await until_so(lambda: not old.exists())


async def test_files_that_grow_old_are_deleted_though_nothing_is_decided(
    directory: Path, compactor: Compactor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compacting, "TIDY_S", 0.02)
    begin_spool(directory, "old").close()
    async with watching(compactor):
        await until_so(lambda: parquet_files(directory) and not spools(directory))
        [old] = parquet_files(directory)
        os.utime(old, (0, 0))
        await until_so(lambda: not old.exists())


async def test_without_a_spool_no_process_is_started(
    directory: Path, compactor: Compactor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    put_instead(monkeypatch, "raise SystemExit('it was started')")
    pauses = note_pauses(monkeypatch)
    async with watching(compactor):
        await until_slept(lambda: len(pauses) >= 4)
        assert "it was started" not in caplog.text
        begin_spool(directory, "left").close()
        await until_slept(lambda: "it was started" in caplog.text)


async def test_without_a_spool_none_is_started_at_the_end(
    compactor: Compactor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    put_instead(monkeypatch, "raise SystemExit('it was started')")
    await compactor.finish(LONG_S)
    assert "it was started" not in caplog.text


async def test_a_log_that_is_switched_off_is_left_alone(directory: Path, state: Path) -> None:
    settings = config(1, state)
    off = settings.model_copy(update={"decisions": settings.decisions.model_copy(update={"enabled": False})})
    begin_spool(directory, "left").close()
    await Compactor(off).watch()
    await Compactor(off).finish(LONG_S)
    assert len(spools(directory)) == 1


async def test_failures_are_logged_and_retried_with_backoff(
    directory: Path, compactor: Compactor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pauses = note_pauses(monkeypatch)
    begin_spool(directory, "left").close()
    put_instead(monkeypatch, "raise SystemExit('decision spool stays for now: no space left')")
    monkeypatch.setattr(compacting, "_LONGEST_PERIOD_S", 0.1)
    async with watching(compactor):
        await until_slept(lambda: len(pauses) >= 4)

    assert pauses[:4] == [0.04, 0.08, 0.1, 0.1]
    assert "no space left" in caplog.text


def put_unusable_spool(directory: Path) -> Path:
    """A spool that no user can open, not even root."""
    spool = partition(directory, "r", "echo") / ".unusable.jsonl"
    spool.parent.mkdir(parents=True)
    spool.symlink_to(spool)
    return spool


async def test_a_spool_that_cannot_be_opened_is_named_once_and_holds_up_no_other(
    directory: Path, compactor: Compactor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pauses = note_pauses(monkeypatch)
    unusable = put_unusable_spool(directory)
    async with watching(compactor) as task:
        for name in ("one", "two"):
            begin_spool(directory, name).close()
            await until_slept(lambda: spools(directory) == [unusable] or task.done())
            assert not task.done()
    begin_spool(directory, "last").close()
    await compactor.finish(LONG_S)

    assert [path.stem for path in parquet_files(directory)] == ["last", "one", "two"]
    assert set(pauses) == {0.02}
    [line] = [record.getMessage() for record in caplog.records]
    assert line.startswith(f"decision spool {unusable} was not compacted and stays for now: ")


@pytest.mark.parametrize("what", ["ended", "parquet_files"])
async def test_a_directory_that_cannot_be_listed_is_named_once_and_tried_again(
    directory: Path,
    compactor: Compactor,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    what: str,
) -> None:
    pauses = note_pauses(monkeypatch)
    listing, fails = getattr(compacting, what), True

    def listed(place: Path) -> Any:
        if fails:
            raise OSError(24, "Too many open files")
        return listing(place)

    monkeypatch.setattr(compacting, what, listed)
    begin_spool(directory, "left").close()
    if what == "ended":
        await compactor.finish(LONG_S)
    async with watching(compactor) as task:
        await until_slept(lambda: len(pauses) >= 2 or task.done())
        assert not task.done()
        fails = False
        await until_slept(lambda: not spools(directory))
    assert [record.getMessage() for record in caplog.records] == [
        f"decision log {directory} cannot be looked through for now: [Errno 24] Too many open files"
    ]


async def test_shutdown_waits_for_compaction_up_to_its_limit(
    directory: Path, compactor: Compactor, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin_spool(directory, "left").close()
    put_instead(monkeypatch, "import time; time.sleep(600)")
    async with asyncio.timeout(LONG_S):
        await compactor.finish(0.2)
    assert len(spools(directory)) == 1


async def test_shutdown_without_grace_does_not_wait(
    directory: Path, compactor: Compactor, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin_spool(directory, "left").close()
    put_instead(monkeypatch, f"open({str(directory / 'runs')!r}, 'w'); import time; time.sleep(600)")
    finishing = asyncio.ensure_future(compactor.finish(LONG_S))
    await until_so((directory / "runs").exists)
    compactor.kill()
    async with asyncio.timeout(LONG_S):
        await finishing
        await compactor.finish(LONG_S)
    assert len(spools(directory)) == 1


async def test_a_process_that_just_starts_does_not_hold_up_a_shutdown_without_grace(
    directory: Path, compactor: Compactor, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin_spool(directory, "left").close()
    put_instead(monkeypatch, "import time; time.sleep(600)")
    start = asyncio.create_subprocess_exec

    async def started(*arguments: str, **options: Any) -> asyncio.subprocess.Process:
        process = await start(*arguments, **options)
        compactor.kill()
        return process

    monkeypatch.setattr(asyncio, "create_subprocess_exec", started)
    async with asyncio.timeout(LONG_S):
        await compactor.finish(2 * LONG_S)
    assert len(spools(directory)) == 1


async def test_a_process_that_cannot_start_is_logged(
    directory: Path, compactor: Compactor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def none_left(*_: str, **__: int) -> None:
        raise OSError(11, "Resource temporarily unavailable")

    begin_spool(directory, "left").close()
    monkeypatch.setattr(asyncio, "create_subprocess_exec", none_left)
    await compactor.finish(LONG_S)
    assert "no process can be started: Resource temporarily unavailable" in caplog.text
