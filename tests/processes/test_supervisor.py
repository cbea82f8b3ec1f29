"""A change that was found reaches the workers, whatever happens on the way."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, cast

import pytest
from tests.gateway.test_watching import Lab

from sluicegate.processes.child import WorkerProcess
from sluicegate.processes.supervisor import Supervisor
from sluicegate.runtime.plugins import CHOICE


class Worker:
    """Remembers the policies that it is told."""

    broker = name = "b1"

    def __init__(self) -> None:
        self.told: list[int] = []

    def tell(self, kind: str, *, policies: Any) -> None:
        self.told.append(policies.version)


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    monkeypatch.setenv(CHOICE, "")
    return Lab(tmp_path)


def supervised(lab: Lab, work: Callable[[Supervisor], Coroutine[None, None, None]]) -> list[int]:
    """Change the file and do something about it, then let the supervisor look twice more."""
    worker = Worker()

    async def run() -> None:
        supervisor = Supervisor(lab.watch)
        supervisor._workers["b1"] = cast("WorkerProcess", worker)
        await supervisor._read_watch()
        await supervisor._take_over(force=True)
        assert worker.told == []
        lab.write(size="200")
        await work(supervisor)
        assert worker.told == []
        for _ in range(2):
            await supervisor._take_over(force=False)
        await supervisor._in_thread(lab.watch.close)
        supervisor._thread.shutdown()

    asyncio.run(run())
    return worker.told


def test_policies_are_sent_by_the_next_look_if_the_first_one_raises(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def raising(supervisor: Supervisor) -> None:
        with monkeypatch.context() as broken:
            broken.setattr(supervisor, "_read_watch", None)
            with pytest.raises(TypeError):
                await supervisor._take_over(force=False)

    assert supervised(lab, raising) == [lab.watch.version]


def test_policies_are_sent_although_the_request_that_changed_them_is_cancelled(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    check, began, goes_on = lab.watch.check, threading.Event(), threading.Event()

    def slow(force: bool) -> bool:
        began.set()
        goes_on.wait()
        return check(force)

    async def cancelled(supervisor: Supervisor) -> None:
        with monkeypatch.context() as slowed:
            slowed.setattr(lab.watch, "check", slow)
            request = asyncio.get_running_loop().create_task(supervisor._take_over(force=False))
            await asyncio.to_thread(began.wait)
            request.cancel()
            goes_on.set()
            with pytest.raises(asyncio.CancelledError):
                await request
            await supervisor._in_thread(int)  # it is over in the thread too

    assert supervised(lab, cancelled) == [lab.watch.version]
