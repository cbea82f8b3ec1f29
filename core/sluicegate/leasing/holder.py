"""The tasks of one process that call the budget store: for tokens, for places, and to be a member."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from time import monotonic_ns
from typing import Any, TypeVar

from sluicegate.budgets import BudgetStore, BudgetStoreError, Member, SameNameError, Turn
from sluicegate.engine.bucket import SECOND_NS
from sluicegate.leasing.away import Away
from sluicegate.leasing.member_info import POLICIES, member_info
from sluicegate.leasing.places import PlaceHolder
from sluicegate.leasing.tokens import LeasedBuckets

log = logging.getLogger(__name__)

_JOIN_NS = SECOND_NS
"""Time between two calls by which a member shows that it is there."""
_ALONE_NS = 10 * SECOND_NS
"""How long the store tells of no other with the same name until this process is taken to be the only one.

It does not tell who joins twice between two joins of the other."""
_COMPARE_S = 10.0
"""Time between two looks at the policies of others; a second for each member if these are more."""
_REST_S = 0.05
"""Pause after a call that raised."""

Answer = TypeVar("Answer")


class Holder:
    """Leases tokens and holds places for one process, and is its member of the fleet.

    :param store: what is shared.
    :param tokens: the buckets of the process.
    :param places: what is attached to it.
    :param away: what is done while the store does not answer.
    :param member: what the process says of itself; called for every join.
    :param now_ns: the time, monotonic.
    """

    def __init__(
        self,
        store: BudgetStore,
        tokens: LeasedBuckets,
        places: PlaceHolder,
        away: Away,
        member: Callable[[], Member],
        now_ns: Callable[[], int] = monotonic_ns,
    ) -> None:
        self.tokens = tokens
        self.places = places
        self.away = away
        self._store = store
        self._member = member
        self._now_ns = now_ns
        self._join_ns = now_ns()
        self._woken = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self.has_name = True
        """Whether no other process of the fleet is known to have its name."""
        self._same_name_ns = 0
        self.other_policies: int | None = None
        """Members whose policies are of another version than here; None while that is unknown."""
        self.led: set[str] = set()
        """Tasks that this process does for all."""
        tokens.wake = self._woken.set

    def start(self) -> None:
        """Begin to call, on the running loop."""
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(self._lasting(each))
            for each in (self._run, self.places.run, self._compare_later)
        ]

    async def close(self) -> None:
        """Leave the fleet and close the store, idempotent; what is leased ends by itself."""
        if not self._tasks:
            return
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        try:
            await self._store.leave()
        except BudgetStoreError as error:
            log.info("could not leave the budget store: %s", error)
        await self._store.close()

    async def attend(self, task: str, report: str, lease: float) -> Turn:
        """Report what this process sees for a task, and lead it if no other does; see `BudgetStore.attend`.

        :raises BudgetStoreError: if the store does not answer, or this holder is closed.
        """
        leads = False
        try:
            if not self._tasks:
                raise BudgetStoreError("this worker ends")
            turn = await self._store.attend(task, report, lease)
            leads = turn.leads
        finally:
            (self.led.add if leads else self.led.discard)(task)
        return turn

    async def publish(self, task: str, findings: str) -> bool:
        """Say what came of a task; see `BudgetStore.publish`.

        :raises BudgetStoreError: as for `attend`.
        """
        if not self._tasks:
            raise BudgetStoreError("this worker ends")
        is_kept = await self._store.publish(task, findings)
        if not is_kept:
            self.led.discard(task)
        return is_kept

    async def turn(self) -> None:
        """Make the calls that are due."""
        now_ns = self._now_ns()
        if now_ns >= self._join_ns:
            self._join_ns = now_ns + _JOIN_NS
            await self.join()
        due_ns = self.tokens.due_ns
        if due_ns is not None and due_ns <= (now_ns := self._now_ns()):
            if self.away.since_ns is not None:
                self.tokens.share_out(self.away.share, self.away.since_ns, now_ns)
            call = self.tokens.begin(now_ns, self.away.spent_ns(now_ns))
            grants = await self._answered(self._store.reserve(call.requests), now_ns)
            self.tokens.end(call, grants, self._now_ns())

    async def join(self) -> None:
        """Tell the store that this process is there."""
        sent_ns = self._now_ns()
        try:
            members = await self._answered(self._store.join(self._member()), sent_ns)
        except SameNameError as error:
            if self.has_name:
                log.error("%s", error)
            self.has_name, self._same_name_ns = False, sent_ns
            return
        if members is not None:
            self.away.joined(members, sent_ns)
            self.has_name = self.has_name or sent_ns - self._same_name_ns > _ALONE_NS

    async def compare(self) -> None:
        """Count the members that have other policies than this one."""
        try:
            members = await self._store.members()
        except BudgetStoreError:
            self.other_policies = None
            return
        own = member_info(self._member()).get(POLICIES)
        self.other_policies = sum(member_info(each).get(POLICIES) != own for each in members)

    async def _compare_later(self) -> None:
        await asyncio.sleep(max(_COMPARE_S, self.away.members))
        await self.compare()

    async def _answered(self, call: Awaitable[Answer], sent_ns: int) -> Answer | None:
        """What a call gives; None if it failed."""
        try:
            answer = await call
        except SameNameError:
            self.away.heard(sent_ns)
            raise
        except BudgetStoreError as error:
            self.away.failed(str(error), self._now_ns())
            return None
        self.away.heard(sent_ns)
        return answer

    async def _lasting(self, calls: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await calls()
            except Exception as error:  # what the store cannot do must not end the leases of all limits
                text = f"it raised {error!r}"
                if self.away.error != text:
                    log.exception("a call of the budget store raised")
                self.away.failed(text, self._now_ns())
                await asyncio.sleep(_REST_S)

    async def _run(self) -> None:
        while True:
            await self.turn()
            self._woken.clear()
            due_ns = min(self._join_ns, self.tokens.due_ns or self._join_ns)
            wait_s = max(0.0, (due_ns - self._now_ns()) / SECOND_NS)
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._woken.wait()

    def standing(self) -> dict[str, Any]:
        """What `explain` tells of it, as JSON: it changes seldom."""
        away = self.away
        return {
            "members": away.members,
            "away": away.since_ns is not None,
            "spends": away.spends,
            "error": away.error if away.since_ns is not None else "",
        }

    def snapshot(self) -> dict[str, Any]:
        """What metrics tell of it, as JSON."""
        now_ns, away = self._now_ns(), self.away
        return {
            "up": int(away.heard_ns is not None and not away.error),
            "age_seconds": None if away.heard_ns is None else (now_ns - away.heard_ns) / SECOND_NS,
            "lost_seconds": away.lost_ns(now_ns) / SECOND_NS,
            "calls": away.calls,
            "errors": away.errors,
            "members": away.members,
            "other_policies": self.other_policies,
            "limits": len(self.tokens),
        }
