"""What leasing costs the Redis that holds the budgets: `python -m benchmarks.budget_calls`.

Some gateways lease tokens of some busy limits, all in one call each, one call after another. It prints what
a call and a limit take of the server's CPU, and what that comes to if each gateway asks every 100 ms, half of
the default lease. A machine under load shows more than an idle one.
"""

import argparse
import asyncio
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness import procfs
from benchmarks.harness.redis import RedisServer, why_no_redis
from sluicegate.budgets import Grant, Limit, Request
from sluicegate.budgets.redis.redis_store import RedisBudgetStore
from sluicegate.budgets.redis.redis_url import redis_client

PERIOD_S = 0.1
_LEASE_US, _PLACE_LEASE_US, _TIMEOUT_S = 200_000, 3_000_000, 10.0
_WARM_UP = 5


class _Gateway:
    """One that leases half of what it wants."""

    def __init__(self, url: str, name: str, limits: list[Limit]) -> None:
        client = redis_client(url)
        self.store = RedisBudgetStore(client, "fleet", name, _LEASE_US, _PLACE_LEASE_US, _TIMEOUT_S)
        self._limits = limits
        self._last: list[Grant | None] = [None] * len(limits)

    async def lease(self) -> None:
        self._last[:] = await self.store.reserve(
            [
                Request(limit, 0.2 * limit.rate, PERIOD_S, kept=1.5, last=last, known=True)
                for limit, last in zip(self._limits, self._last, strict=True)
            ]
        )


async def _cpu_us(server: RedisServer, gateways: list[_Gateway], rounds: int) -> float:
    """CPU of the server for each call, in us."""
    for _ in range(_WARM_UP):
        for gateway in gateways:
            await gateway.lease()
    began_s = procfs.cpu_seconds(server.pid)
    for _ in range(rounds):
        for gateway in gateways:
            await gateway.lease()
    return (procfs.cpu_seconds(server.pid) - began_s) * 1e6 / rounds / len(gateways)


@dataclass(frozen=True)
class CallCost:
    """What a call takes of the server, and each of its limits: us of CPU, and bytes of both directions."""

    call_us: float
    limit_us: float
    call_bytes: float
    limit_bytes: float

    def of(self, calls: float, limits: float) -> tuple[float, float]:
        """Cores and bytes a second for so many calls and limits a second."""
        cores = (calls * self.call_us + limits * self.limit_us) / 1e6
        return cores, calls * self.call_bytes + limits * self.limit_bytes


async def _each_call(server: RedisServer, count: int, limits: int, rounds: int) -> tuple[float, float]:
    """CPU in us and bytes of a call."""
    named = [Limit(f"kafka|tenant.orders-{number}|topic|m", 1000, 1000) for number in range(limits)]
    gateways = [_Gateway(server.url, f"gateway {number}", named) for number in range(count)]
    try:
        before = _bytes(server)
        call_us = await _cpu_us(server, gateways, rounds)
        return call_us, (_bytes(server) - before) / count / (rounds + _WARM_UP)
    finally:
        for gateway in gateways:
            await gateway.store.close()


def _bytes(server: RedisServer) -> int:
    lines = server.ask("info", "stats").decode().splitlines()
    named = dict(line.split(":", 1) for line in lines if ":" in line)
    return int(named["total_net_input_bytes"]) + int(named["total_net_output_bytes"])


async def call_cost(server: RedisServer, rounds: int = 200) -> CallCost:
    """Tell what belongs to a call from what belongs to its limits."""
    few_us, few_bytes = await _each_call(server, 10, 1, rounds)
    many_us, many_bytes = await _each_call(server, 10, 101, rounds)
    limit_us, limit_bytes = (many_us - few_us) / 100, (many_bytes - few_bytes) / 100
    return CallCost(few_us - limit_us, limit_us, few_bytes - limit_bytes, limit_bytes)


async def _measure(server: RedisServer, count: int, limits: int, rounds: int) -> None:
    call_us, nbytes = await _each_call(server, count, limits, rounds)
    calls, period_ms = count / PERIOD_S, PERIOD_S * 1000
    core = calls * call_us / 1e6
    print(f"{limits} limits a call: {call_us:.0f} us of the server's CPU, {call_us / limits:.2f} us a limit")
    print(f"{count} gateways every {period_ms:.0f} ms: {calls:.0f} calls/s, {core:.1%} of a core, ", end="")
    print(f"{calls * nbytes / 1e6:.2f} MB/s")


def main() -> None:
    """Measure on a server of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gateways", type=int, default=10)
    parser.add_argument("--limits", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=200)
    arguments = parser.parse_args()
    if reason := why_no_redis():
        parser.error(reason)
    with tempfile.TemporaryDirectory() as directory, RedisServer(Path(directory)) as server:
        asyncio.run(_measure(server, arguments.gateways, arguments.limits, arguments.rounds))


if __name__ == "__main__":
    main()
