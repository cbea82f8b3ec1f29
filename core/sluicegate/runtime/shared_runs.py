"""Runs of a shared task: by the worker that leads it, for all that share a budget store."""

import asyncio
from collections.abc import Callable, Coroutine
from time import monotonic
from typing import Any, Protocol, TypeVar

from sluicegate.budgets import BudgetStoreError, Turn
from sluicegate.engine.faults import CAUGHT
from sluicegate.engine.task import SharedTask, Task

_PATIENT_S = 2.0
"""Longest time for a call to the worker's event loop, longer than the store's own."""
_FIRST_LOOK_S = 0.25
"""How often a worker looks for the first finding of a leader that has just begun."""
_FIRST_PART = 0.8
"""For which part of a run's longest time it does."""
_LONGEST_LAG_S = 1.0
"""How long after the leader's next run the others look for what it found, at most."""

Answer = TypeVar("Answer")


class Turns(Protocol):
    """What workers tell each other of tasks; raises BudgetStoreError while that does not work."""

    async def attend(self, task: str, report: str, lease: float) -> Turn:
        """See `BudgetStore.attend`."""

    async def publish(self, task: str, findings: str) -> bool:
        """See `BudgetStore.publish`."""


class TurnsElsewhere:
    """Calls of the tasks' thread to what belongs to the worker's event loop.

    :param turns: called on that loop.
    :param loop: may have ended.
    """

    def __init__(self, turns: Turns, loop: asyncio.AbstractEventLoop) -> None:
        self._turns = turns
        self._loop = loop

    async def attend(self, task: str, report: str, lease: float) -> Turn:
        """See `BudgetStore.attend`."""
        return await self._done(self._turns.attend(task, report, lease))

    async def publish(self, task: str, findings: str) -> bool:
        """See `BudgetStore.publish`."""
        return await self._done(self._turns.publish(task, findings))

    async def applied(self) -> None:
        """Wait until all that was applied before has taken effect."""
        await self._done(asyncio.sleep(0))

    async def _done(self, call: Coroutine[Any, Any, Answer]) -> Answer:
        try:
            called = asyncio.run_coroutine_threadsafe(call, self._loop)
        except RuntimeError:
            call.close()
            raise BudgetStoreError("the worker has ended") from None
        answer = asyncio.wrap_future(called)
        try:
            done, _ = await asyncio.wait((answer,), timeout=_PATIENT_S)
        finally:
            answer.cancel()  # has no effect on one that is done
        if not done:
            raise BudgetStoreError(f"the worker did not answer within {_PATIENT_S:g} s")
        if answer.cancelled():  # a loop that ends cancels what runs on it
            raise BudgetStoreError("the worker has ended")
        return answer.result()


class SharedRuns:
    """Runs one task for all while this worker leads it, and else takes over what was found.

    :param task: it has something to share.
    :param shared: how.
    :param name: of the task, in the fleet.
    :param turns: of this worker.
    :param show: told before each run ends whether this worker leads.
    """

    def __init__(
        self, task: Task, shared: SharedTask, name: str, turns: TurnsElsewhere, show: Callable[[bool], None]
    ) -> None:
        self._task = task
        self._shared = shared
        self._name = name
        self._turns = turns
        self._show = show
        self._leads = False
        self._published = ""
        """What was published last: it is not news to this worker."""

    async def run(self, limit_s: float, interval_s: float) -> float:
        """Run the task, or take over what its leader found.

        :param limit_s: longest time that a run may take; so long this worker leads without another one.
        :return: seconds to the next run from when this one began; the others follow the leader's.
        :raises Exception: what the task or its share raises.
        """
        began = monotonic()
        try:
            turn = await self._first_turn(await self._shared.tell(), limit_s)
        except BudgetStoreError:
            await self._run_alone()
            return interval_s
        except Exception:
            await self._run_alone()
            raise
        if turn.leads:
            await self._lead(turn)
            return interval_s
        self._set(leads=False)
        if turn.findings:
            await self._follow(turn)
        return monotonic() - began + _wait_s(interval_s, turn.age)

    async def _first_turn(self, report: str, limit_s: float) -> Turn:
        """The turn; if another leads and has not found anything yet, one after it has, if that comes soon."""
        end = monotonic() + _FIRST_PART * limit_s
        while True:
            turn = await self._turns.attend(self._name, report, limit_s)
            if turn.leads or turn.findings or monotonic() > end:
                return turn
            await asyncio.sleep(_FIRST_LOOK_S)

    async def _lead(self, turn: Turn) -> None:
        unread = None
        if not self._leads and turn.findings and turn.findings != self._published:
            try:
                self._shared.take(turn.findings, turn.age)
            except CAUGHT as error:
                unread = error
        self._set(leads=True)
        self._shared.hear(turn.reports)
        await self._task.run()
        try:
            await self._turns.applied()
            findings = self._shared.findings()
            if await self._turns.publish(self._name, findings):
                self._published = findings
            else:
                self._set(leads=False)
        except BudgetStoreError:
            self._set(leads=False)
        if unread is not None:
            raise unread

    async def _follow(self, turn: Turn) -> None:
        try:
            self._shared.take(turn.findings, turn.age)
        except CAUGHT:
            await self._run_alone()
            raise

    async def _run_alone(self) -> None:
        self._set(leads=False)
        self._shared.hear(None)
        await self._task.run()

    def _set(self, *, leads: bool) -> None:
        self._leads = leads
        self._show(leads)


def _wait_s(interval_s: float, age_s: float) -> float:
    """Seconds until the leader has probably run again; ever more if it is late.

    :param age_s: of what it found last.
    """
    lag_s = min(interval_s / 10, _LONGEST_LAG_S)
    late_s = age_s - interval_s
    return lag_s - late_s if late_s < 0 else max(lag_s, min(late_s, interval_s / 4))
