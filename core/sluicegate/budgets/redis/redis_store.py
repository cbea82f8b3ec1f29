"""The budget store in a Redis or Valkey."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.cluster import RedisCluster
from redis.exceptions import AuthenticationError, NoScriptError, OutOfMemoryError, ReadOnlyError, RedisError

from sluicegate.budgets.budget_store import BudgetStoreError, Grant, Place, Request
from sluicegate.budgets.redis.scripts import SCRIPTS


class RedisBudgetStore:
    """Budgets in a Redis for one holder; a `BudgetStore`.

    Keys begin with `prefix`, and all keys of one limit are in one hash slot.

    :param client: of the server; it must try nothing again, and is closed with the store.
    :param prefix: tells the budgets of one fleet of gateways from those of others.
    :param holder: its name.
    :param lease_us: how long leased tokens can be spent, in us; the same for all holders.
    :param place_lease_us: how long a place is held without being renewed, in us.
    :param timeout_s: how long a call may take.
    :param now_us: the time; by default the server's clock.
    """

    def __init__(
        self,
        client: Redis | RedisCluster,
        prefix: str,
        holder: str,
        lease_us: int,
        place_lease_us: int,
        timeout_s: float,
        now_us: Callable[[], int] = lambda: 0,
    ) -> None:
        self._client = client
        self._prefix = prefix
        self._holder = holder
        self._lease_us = lease_us
        self._place_lease_us = place_lease_us
        self._timeout_s = timeout_s
        self._now_us = now_us
        self._since = b""
        """When the store began, as far as this holder knows; empty before it has asked."""

    async def begin(self) -> None:
        """Ask the store when it began: then each limit was empty, and an unused one has refilled since."""
        async with self._answering():
            (self._since,) = await self._called(self._asks_since())

    async def reserve(self, requests: Sequence[Request]) -> Sequence[Grant]:
        """Lease tokens."""
        if not self._since:
            await self.begin()
        async with self._answering():
            since, *answers = await self._called(self._asks_since(), *self._reserves(requests))
        numbers = [float(text) for answer in answers for text in answer.split()]
        grants = [
            Grant(tokens, 0, int(holders), demand)
            for tokens, holders, demand in zip(numbers[::3], numbers[1::3], numbers[2::3], strict=True)
        ]
        if since == self._since:
            return grants
        # It has begun anew. What was leased by its former beginning is worth nothing.
        self._since = since
        return [
            grant if each.known else Grant(0, 0, grant.holders, grant.demand)
            for each, grant in zip(requests, grants, strict=True)
        ]

    async def hold(self, places: Sequence[Place]) -> Sequence[int]:
        """Take places."""
        by_limit: dict[str, list[int]] = {}
        for index, place in enumerate(places):
            by_limit.setdefault(place.limit, []).append(index)
        await self.begin()
        calls = [self._holds(limit, [places[index] for index in by_limit[limit]]) for limit in by_limit]
        async with self._answering():
            answers = await self._called(*calls)
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

    async def close(self) -> None:
        """End the connections."""
        await self._client.aclose()

    # -- calls: the script, its keys and its arguments ------------------------------------------------

    def _asks_since(self) -> "_Call":
        return "since", [f"{self._prefix}:since"], (self._now_us(),)

    def _reserves(self, requests: Sequence[Request]) -> list["_Call"]:
        """One call for all limits; in a cluster one for each, as their buckets are on different servers."""
        times = self._now_us(), self._since, self._lease_us, 1_000_000
        is_cluster = isinstance(self._client, RedisCluster)
        calls = [[each] for each in requests] if is_cluster else [requests]
        return [
            (
                "reserve",
                [f"{self._prefix}:{{{each.limit.name}}}:bucket" for each in together],
                (*times, self._holder, *(number for each in together for number in _numbers(each))),
            )
            for together in calls
        ]

    def _holds(self, limit: str, places: Sequence[Place]) -> "_Call":
        wanted = [argument for each in places for argument in (each.identity, each.most, int(each.known))]
        times = self._now_us(), self._since, self._place_lease_us
        return "hold", self._place_keys(limit), (*times, self._holder, *wanted)

    def _place_keys(self, limit: str) -> list[str]:
        return [f"{self._prefix}:{{{limit}}}:holders", f"{self._prefix}:{{{limit}}}:ends"]

    async def _called(self, *calls: "_Call") -> list[Any]:
        """What scripts answer, in one round trip; once more if the server does not know them yet."""
        try:
            return await self._sent(calls)
        except NoScriptError:
            for script in SCRIPTS.values():
                await self._client.script_load(script.text)
            return await self._sent(calls)

    async def _sent(self, calls: Sequence["_Call"]) -> list[Any]:
        pipe = self._client.pipeline(transaction=False)
        for name, keys, arguments in calls:
            pipe.execute_command("EVALSHA", SCRIPTS[name].digest, len(keys), *keys, *arguments)
        return await pipe.execute()

    @asynccontextmanager
    async def _answering(self) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self._timeout_s):
                yield
        except TimeoutError:
            raise BudgetStoreError(f"no answer within {self._timeout_s * 1000:.0f} ms") from None
        except (RedisError, OSError) as error:
            raise BudgetStoreError(_explained(error)) from error


def _numbers(request: Request) -> tuple[float, ...]:
    limit = request.limit
    return limit.rate, limit.burst, request.want, request.kept, request.need, int(request.known)


_REMEDIES = {
    AuthenticationError: "look at user and password of `budgets`",
    ReadOnlyError: "it is a replica: name the primary, or its Sentinels by redis+sentinel://",
    OutOfMemoryError: "raise its maxmemory, or give budgets a server of their own",
}


def _explained(error: Exception) -> str:
    text = f"{type(error).__name__}: {error}"
    remedy = next((remedy for kind, remedy in _REMEDIES.items() if isinstance(error, kind)), "")
    return f"{text}; {remedy}" if remedy else text


_Call = tuple[str, list[str], tuple[str | bytes | float, ...]]
"""A script's name, its keys and its arguments."""
