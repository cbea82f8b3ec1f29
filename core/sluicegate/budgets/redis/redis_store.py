"""The budget store in a Redis or Valkey."""

import asyncio
import struct
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import quote

from redis.asyncio import Redis
from redis.asyncio.cluster import RedisCluster
from redis.asyncio.sentinel import SentinelConnectionPool
from redis.exceptions import NoScriptError

from sluicegate.budgets.budget_store import (
    OFF_PATH_S,
    BudgetStoreError,
    Grant,
    Member,
    Place,
    Request,
    SameNameError,
    Standing,
    Turn,
    check_size,
)
from sluicegate.budgets.central import CentralBucket
from sluicegate.budgets.redis.redis_errors import ERRORS, explained, late
from sluicegate.budgets.redis.scripts import SCRIPTS

_AT_ONCE: Final = 500
"""Limits of one script call, so that no call holds the server for long."""
_LATE_S: Final = 1.0
"""How long the answer of a call that has failed is awaited, before its connection is given up."""
_PATIENT_S: Final = 10.0
"""How long a call for people may take."""


class RedisBudgetStore:
    """Budgets in a Redis for one holder; a `BudgetStore`.

    All keys of one limit are in one hash slot.

    :param client: of the server; it must try nothing again, and is closed with the store.
    :param fleet: tells the budgets of one fleet of gateways from those of others.
    :param holder: its name.
    :param lease_us: how long leased tokens can be spent, in us; the same for all holders.
    :param place_lease_us: how long a place is held without being renewed, in us.
    :param timeout_s: how long a call may take.
    :param now_us: the time; by default the server's clock.
    """

    def __init__(
        self,
        client: Redis | RedisCluster,
        fleet: str,
        holder: str,
        lease_us: int,
        place_lease_us: int,
        timeout_s: float,
        now_us: Callable[[], int] = lambda: 0,
    ) -> None:
        self._client = client
        self._fleet = fleet
        self._fleet_key = f"sluicegate:{quote(fleet, safe='')}"
        self._prefix = f"sluicegate:1:{quote(fleet, safe='')}"
        self._holder = holder
        self._lease_us = lease_us
        self._place_lease_us = place_lease_us
        self._timeout_s = timeout_s
        self._now_us = now_us
        self._member: Member | None = None
        self._attended: set[str] = set()
        self._has_answered = False
        self._late: asyncio.Future[Any] | None = None
        """A call that was not answered in time."""

    async def begin(self) -> tuple[int, int]:
        """Ask the store when the budgets of this fleet began: then each limit was empty.

        :return: that time and the time now, in us.
        """
        [[since, now]] = await self._called(("since", [self._fleet_key], ()))
        return int(since), int(now)

    async def reserve(self, requests: Sequence[Request]) -> Sequence[Grant]:
        """Lease tokens."""
        async with self._answering():
            answer = b"".join(await self._called(*await self._reserves(requests)))
        return [
            Grant(tokens, int(generation), int(holders), demand)
            for tokens, generation, holders, demand in struct.iter_unpack("<4d", answer)
        ]

    async def hold(self, places: Sequence[Place]) -> Sequence[int]:
        """Take places."""
        by_limit: dict[str, list[int]] = {}
        for index, place in enumerate(places):
            by_limit.setdefault(place.limit, []).append(index)
        async with self._answering():
            since, _ = await self.begin()
            answers = await self._called(
                *(self._holds(limit, [places[each] for each in by_limit[limit]], since) for limit in by_limit)
            )
        held = [0] * len(places)
        for indexes, answer in zip(by_limit.values(), answers, strict=True):
            for index, taken in zip(indexes, answer, strict=True):
                held[index] = int(taken)
        return held

    async def release(self, places: Sequence[Place]) -> None:
        """Free places."""
        calls = [("release", self._place_keys(each.limit), (self._holder, each.identity)) for each in places]
        async with self._answering():
            await self._called(*calls)

    async def taken(self, limits: Sequence[str]) -> Sequence[int]:
        """How many places of each limit are taken."""
        async with self._answering():
            return await self._called(*(("taken", self._place_keys(each)[:2], ()) for each in limits))

    async def join(self, member: Member) -> int:
        """Become a member, or stay one."""
        again, self._member = self._member is not None, member
        async with self._answering():
            await self.begin()
            about = self._place_lease_us, _name(member), member.instance, int(again), member.info
            [count] = await self._called(("join", self._member_keys(), about))
        if count < 0:
            raise SameNameError(member)
        return int(count)

    async def leave(self) -> None:
        """Stop being a member, and leading tasks."""
        calls: list[_Call] = [
            ("step_down", self._task_keys(task), (self._holder,)) for task in sorted(self._attended)
        ]
        self._attended.clear()
        if self._member is not None:
            member, self._member = self._member, None
            calls.append(("leave", self._member_keys(), (_name(member), member.instance)))
        if calls:
            async with self._answering():
                await self._called(*calls)

    async def members(self) -> Sequence[Member]:
        """All members."""
        async with self._answering(_PATIENT_S):
            [answer] = await self._called(("members", self._member_keys(), ()))
        texts = [text.decode() for text in answer]
        return [_member(name, value) for name, value in sorted(zip(texts[::2], texts[1::2], strict=True))]

    async def attend(self, task: str, report: str, lease: float) -> Turn:
        """Report what this holder sees for a task, and take the lead if no other holder has it."""
        check_size(task, report)
        self._attended.add(task)
        async with self._answering(OFF_PATH_S):
            await self.begin()
            about = self._holder, round(lease * 1e6), report
            [answer] = await self._called(("attend", self._task_keys(task), about))
        leads, age_us, *texts = answer
        findings, *others = (text.decode() for text in texts)
        return Turn(
            bool(leads), findings, int(age_us) / 1e6, dict(zip(others[::2], others[1::2], strict=True))
        )

    async def publish(self, task: str, findings: str) -> bool:
        """Say what came of a task."""
        check_size(task, findings)
        async with self._answering(OFF_PATH_S):
            keys = self._task_keys(task)
            [is_kept] = await self._called(("publish", keys[:1], (self._holder, findings)))
        return bool(is_kept)

    async def standings(self) -> Sequence[Standing]:
        """How all limits stand."""
        start, end = f"{self._prefix}:{{", "}:bucket"
        async with self._answering(_PATIENT_S):
            _, now_us = await self.begin()
            keys = sorted({key async for key in self._client.scan_iter(f"{start}*{end}", count=1000)})
            pipe = self._client.pipeline(transaction=False)
            for key in keys:
                pipe.get(key)
            values = await pipe.execute()
        return [
            CentralBucket.restored(value, self._lease_us).standing(
                key.decode().removeprefix(start).removesuffix(end), now_us
            )
            for key, value in zip(keys, values, strict=True)
            if value
        ]

    async def close(self) -> None:
        """End the connections."""
        if self._late is not None:
            self._late.cancel()
            await asyncio.wait((self._late,))
        await self._client.aclose()
        pool = getattr(self._client, "connection_pool", None)
        if isinstance(pool, SentinelConnectionPool):
            for sentinel in pool.sentinel_manager.sentinels:
                await sentinel.aclose()

    # -- calls: the script, its keys and its arguments ------------------------------------------------

    async def _reserves(self, requests: Sequence[Request]) -> list["_Call"]:
        """Few calls for all limits; in a cluster one for each, as their buckets are on different servers."""
        at_once, more_keys, since = _AT_ONCE, [self._fleet_key], ""
        if isinstance(self._client, RedisCluster):
            at_once, more_keys, since = 1, [], str((await self.begin())[0])
        calls = [requests[first : first + at_once] for first in range(0, len(requests), at_once)]
        return [
            (
                "reserve",
                [*(f"{self._prefix}:{{{each.limit.name}}}:bucket" for each in together), *more_keys],
                (self._lease_us, since, b"".join(map(_packed, together))),
            )
            for together in calls
        ]

    def _holds(self, limit: str, places: Sequence[Place], since: int) -> "_Call":
        wanted = [argument for each in places for argument in (each.identity, each.most, int(each.known))]
        return "hold", self._place_keys(limit), (since, self._place_lease_us, self._holder, *wanted)

    def _place_keys(self, limit: str) -> list[str]:
        return [f"{self._prefix}:{{{limit}}}:{kind}" for kind in ("holders", "ends", "most")]

    def _member_keys(self) -> list[str]:
        return [f"{self._prefix}:{{members}}:members", f"{self._prefix}:{{members}}:alive"]

    def _task_keys(self, task: str) -> list[str]:
        start = f"{self._prefix}:{{task:{task}}}"
        return [f"{start}:leader", f"{start}:reports", f"{start}:ends"]

    async def _called(self, *calls: "_Call") -> list[Any]:
        """What scripts answer, in one round trip.

        What a server refused as it does not know the script yet is sent once more. Nothing else is: a request
        that is carried out twice would end leases of others.
        """
        answers = await self._sent(calls)
        unknown = [index for index, answer in enumerate(answers) if isinstance(answer, NoScriptError)]
        if unknown:
            for script in SCRIPTS.values():
                await self._client.script_load(script.text)
            again = await self._sent([calls[index] for index in unknown])
            for index, answer in zip(unknown, again, strict=True):
                answers[index] = answer
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
        return answers

    async def _sent(self, calls: Sequence["_Call"]) -> list[Any]:
        """Send calls, once the answer of one that has failed is there.

        That one is not broken off, as this would cost its connection: one that takes longer to be made than a
        call may take would never come about.
        """
        if self._late is not None:
            await asyncio.wait((self._late,))
            self._late = None
        call = asyncio.ensure_future(self._execute(calls))
        try:
            return await asyncio.shield(call)
        except asyncio.CancelledError:
            call.add_done_callback(_forget)
            asyncio.get_running_loop().call_later(_LATE_S, call.cancel)
            self._late = call
            raise

    async def _execute(self, calls: Sequence["_Call"]) -> list[Any]:
        pipe = self._client.pipeline(transaction=False)
        now_us = self._now_us()
        for name, keys, arguments in calls:
            pipe.execute_command("EVALSHA", SCRIPTS[name].digest, len(keys), *keys, now_us, *arguments)
        answers = await pipe.execute(raise_on_error=False)
        self._has_answered = True
        return answers

    @asynccontextmanager
    async def _answering(self, timeout_s: float = 0) -> AsyncIterator[None]:
        timeout_s = max(timeout_s, self._timeout_s)
        try:
            async with asyncio.timeout(timeout_s):
                yield
        except TimeoutError:
            raise BudgetStoreError(late(timeout_s, self._has_answered)) from None
        except ERRORS as error:
            raise BudgetStoreError(explained(error, self._fleet)) from error


def _forget(call: asyncio.Future[Any]) -> None:
    """Retrieve a call's exception, so that asyncio does not log it."""
    if not call.cancelled():
        call.exception()


def _packed(request: Request) -> bytes:
    limit, last = request.limit, request.last
    return struct.pack(
        "<10d",
        limit.rate,
        limit.burst,
        request.want,
        request.seconds,
        request.kept,
        last.tokens if last else 0,
        last.generation if last else -1,
        request.need,
        request.known,
        request.away,
    )


def _name(member: Member) -> str:
    return f"{member.gateway}\n{member.worker}"


def _member(name: str, value: str) -> Member:
    gateway, _, worker = name.partition("\n")
    instance, _, info = value[1:].partition("\n")
    return Member(gateway, worker, instance, info)


_Call = tuple[str, list[str], tuple[str | bytes | float, ...]]
"""A script's name, its keys and its arguments."""
