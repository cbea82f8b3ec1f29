"""A client's deadline runs while its call is held, with any interceptor."""

import asyncio
from collections.abc import Iterable
from typing import Any

import grpc
import pytest
from grpc import _interceptor, aio
from tests.grpc.lab import (
    HOLDING,
    MAP,
    TOPIC,
    P,
    consumers,
    create,
    engine,
    message,
    producers,
    send,
    subscribe,
)

from sluicegate.embedded import PolicyEngine
from sluicegate_grpc.aio import policy_client_interceptors
from sluicegate_grpc.interceptors import client_side
from sluicegate_grpc.sync import PolicyClientInterceptor

HELD_MS = 60_000
"""No test waits so long; a call that knows no deadline does."""
SLOW_TO_ATTACH: dict[str, Any] = {"connection_rate_limit": 0.001, "on_limit__connection_rate_limit": "delay"}
CODE = grpc.StatusCode


class Clock:
    """A clock that the listing of subscriptions advances."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s

    def list(self, topic: str) -> Iterable[str]:
        self.now_s += 4
        return ()

    async def list_later(self, topic: str) -> Iterable[str]:
        return self.list(topic)


class Channel:
    """Calls by one of the client interceptors, over a channel that answers at once."""

    def __init__(self, made: PolicyEngine, kind: str, clock: Clock | None = None) -> None:
        self.sent: list[float | None] = []
        """The timeouts of the calls that were sent."""
        lists: Any = None if clock is None else clock.list_later if kind == "aio" else clock.list
        self._is_aio = kind == "aio"
        made_by: Any = policy_client_interceptors if self._is_aio else PolicyClientInterceptor
        self._by = made_by(made, MAP, list_subscriptions=lists)

    async def call(self, name: str, request: bytes, seconds: float | None) -> Any:
        """Make a call with this timeout; what it ends with."""
        if self._is_aio:
            details = aio.ClientCallDetails(P + name, seconds, None, None, None)
            try:
                await self._by[0].intercept_unary_unary(self._later, details, request)
            except aio.AioRpcError as error:
                return error.code()
            return CODE.OK
        plain = _interceptor._ClientCallDetails(P + name, seconds, None, None, None, None)
        call = await asyncio.to_thread(self._by.intercept_unary_unary, self._now, plain, request)
        return call.code()

    def _now(self, details: Any, request: bytes) -> Any:
        self.sent.append(details.timeout)
        return Answered()

    async def _later(self, details: Any, request: bytes) -> Any:
        return self._now(details, request)


class Answered:
    """A call that was answered."""

    def code(self) -> grpc.StatusCode:
        return CODE.OK

    def result(self) -> bytes:
        return message({1: 7})

    def __await__(self) -> Any:
        yield from asyncio.sleep(0).__await__()
        return self.result()


@pytest.fixture(params=["aio", "sync"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def test_a_held_publish_ends_at_its_deadline(kind: str) -> None:
    with engine(max_hold_ms=HELD_MS, **HOLDING) as made:
        channel = Channel(made, kind)
        assert await channel.call("Create", create("p"), None) is CODE.OK
        assert await channel.call("Send", send(7, 1000), 10) is CODE.OK
        assert await channel.call("Send", send(7, 1000), 0.05) is CODE.DEADLINE_EXCEEDED
        assert channel.sent == [None, 10], "what is not held is sent as it is"
        with made.lock:
            assert made.gate(TOPIC, False, 0).state.limiters["max_publish_rate"].waiting == 0


async def test_a_held_attachment_ends_at_its_deadline(kind: str) -> None:
    with engine(max_hold_ms=HELD_MS, **SLOW_TO_ATTACH) as made:
        channel = Channel(made, kind)
        assert await channel.call("Create", create("p"), None) is CODE.OK
        assert await channel.call("Create", create("q"), 0.05) is CODE.DEADLINE_EXCEEDED
        assert (producers(made), len(channel.sent)) == (1, 1)


async def test_the_time_for_which_a_call_was_held_is_taken_from_its_timeout(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(client_side, "monotonic", clock)
    with engine(max_subscriptions_per_topic=1) as made:
        channel = Channel(made, kind, clock)
        assert await channel.call("Subscribe", subscribe("c"), 10) is CODE.OK
        assert await channel.call("Subscribe", subscribe("c", topic="/default/other"), None) is CODE.OK
        assert channel.sent == [6, None]
        assert consumers(made, TOPIC) == 1
