"""Parquet files are made by a process of their own, which nobody waits for longer than told."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from tests.gateway.test_embedded import config

from sluicegate.decisions.spool import Spool, parquet_files, partition, spools
from sluicegate.gateway import compacting
from sluicegate.gateway.compacting import Compactor, log_directory

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
async def watching(compactor: Compactor) -> AsyncIterator[None]:
    task = asyncio.ensure_future(compactor.watch())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def until(condition: Callable[[], object], seconds: float = 30) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - a file of another process tells nobody
            await asyncio.sleep(0.02)


def put_instead(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    """Have another program run in place of the one that compacts."""
    start = asyncio.create_subprocess_exec

    def other(*_: str, **options: int) -> Awaitable[asyncio.subprocess.Process]:
        return start(sys.executable, "-c", program, stdin=options["stdin"], stderr=options["stderr"])

    monkeypatch.setattr(asyncio, "create_subprocess_exec", other)


async def test_spools_become_parquet_once_nobody_writes_them(directory: Path, compactor: Compactor) -> None:
    begin_spool(directory, "left").close()
    live = begin_spool(directory, "live")
    async with watching(compactor):
        await until(lambda: spools(directory) == [live.path])
        assert [path.stem for path in parquet_files(directory)] == ["left"]
        live.close()
        await until(lambda: not spools(directory))
    assert [path.stem for path in parquet_files(directory)] == ["left", "live"]


async def test_old_files_go_at_the_start(directory: Path, compactor: Compactor) -> None:
    begin_spool(directory, "old").close()
    await compactor.finish(30)
    [old] = parquet_files(directory)
    os.utime(old, (0, 0))
    async with watching(compactor):
        await until(lambda: not old.exists())


async def test_without_a_spool_no_process_is_started(
    compactor: Compactor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    put_instead(monkeypatch, "raise SystemExit('it was started')")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await compactor.watch()
    await compactor.finish(30)
    assert "it was started" not in caplog.text


async def test_a_log_that_is_switched_off_is_left_alone(directory: Path, state: Path) -> None:
    settings = config(1, state)
    off = settings.model_copy(update={"decisions": settings.decisions.model_copy(update={"enabled": False})})
    begin_spool(directory, "left").close()
    await Compactor(off).watch()
    await Compactor(off).finish(30)
    assert len(spools(directory)) == 1


async def test_what_goes_wrong_is_told_and_tried_again_less_often(
    directory: Path, compactor: Compactor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(0)

    begin_spool(directory, "left").close()
    put_instead(monkeypatch, "raise SystemExit('decision spool stays for now: no space left')")
    monkeypatch.setattr(asyncio, "sleep", pause)
    monkeypatch.setattr(compacting, "_LONGEST_PERIOD_S", 0.1)
    task = asyncio.ensure_future(compactor.watch())
    async with asyncio.timeout(30):
        while len(pauses) < 4:
            await sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert pauses[:4] == [0.04, 0.08, 0.1, 0.1]
    assert "no space left" in caplog.text


async def test_at_the_end_it_is_not_waited_for_longer_than_told(
    directory: Path, compactor: Compactor, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin_spool(directory, "left").close()
    put_instead(monkeypatch, "import time; time.sleep(60)")
    async with asyncio.timeout(20):
        await compactor.finish(0.2)
    assert len(spools(directory)) == 1


async def test_who_is_in_a_hurry_waits_for_no_process(
    directory: Path, compactor: Compactor, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin_spool(directory, "left").close()
    put_instead(monkeypatch, f"open({str(directory / 'runs')!r}, 'w'); import time; time.sleep(60)")
    finishing = asyncio.ensure_future(compactor.finish(60))
    await until((directory / "runs").exists)
    compactor.kill()
    async with asyncio.timeout(20):
        await finishing
        await compactor.finish(60)
    assert len(spools(directory)) == 1


async def test_no_process_to_be_had_is_told(
    directory: Path, compactor: Compactor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def none_left(*_: str, **__: int) -> None:
        raise OSError(11, "Resource temporarily unavailable")

    begin_spool(directory, "left").close()
    monkeypatch.setattr(asyncio, "create_subprocess_exec", none_left)
    await compactor.finish(30)
    assert "no process can be started: Resource temporarily unavailable" in caplog.text
