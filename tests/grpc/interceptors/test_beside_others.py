"""Policies beside the interceptors that instrument servers and channels for OpenTelemetry and Sentry."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import grpc
import pytest
from grpc import aio
from opentelemetry.instrumentation.grpc import aio_server_interceptor, client_interceptor
from opentelemetry.instrumentation.grpc.grpcext import intercept_channel
from sentry_sdk.integrations.grpc.aio.server import ServerInterceptor
from tests.grpc.interceptors.aio.serving import serving
from tests.grpc.interceptors.sync.serving import refused
from tests.grpc.interceptors.sync.serving import serving as sync_serving
from tests.grpc.lab import (
    MAP,
    TOPIC,
    Broker,
    consumers,
    create,
    delivered,
    engine,
    message,
    number,
    send,
    subscribe,
    told,
)
from tests.waiting import LONG_S, until, until_so

from sluicegate.embedded import PolicyEngine
from sluicegate_grpc.sync import PolicyClientInterceptor

CODE = grpc.StatusCode
SMALL, LARGE = message({1: TOPIC, 2: b"x"}), message({1: TOPIC, 2: b"x" * 1_000})
Outer = Callable[[], aio.ServerInterceptor]
OTHERS = pytest.mark.parametrize("outer", [aio_server_interceptor, ServerInterceptor])


async def _follow(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
    """A generator, as others' interceptors take no other handler that streams responses."""
    async for _ in requests:
        yield delivered(1)


@OTHERS
async def test_all_kinds_of_handlers_go_on_behind_another_server_interceptor(outer: Outer) -> None:
    made = engine(max_message_size=100, max_producers_per_topic=1)
    follow: Any = grpc.stream_stream_rpc_method_handler(_follow)
    async with serving(made, Broker(messages=3), {"Follow": follow}, before=[outer()]) as served:
        assert number(await served.unary("Create", create("a"))) == 1
        await served.unary("Send", send(1))
        await served.unary("Subscribe", subscribe("c"))
        received = [number(response) async for response in served.stream("Receive", message({1: 2}))]
        assert received == [1, 2, 3]
        talk = served.channel.stream_stream("/t.Broker/Talk")
        assert len([response async for response in talk(iter([SMALL] * 3))]) == 3
        following = served.channel.stream_stream("/t.Broker/Follow")
        assert [number(each) async for each in following(iter([subscribe("d")] * 2))] == [1, 1]
        send_all = served.channel.stream_unary("/t.Broker/SendAll")
        assert number(await send_all(iter([SMALL] * 2))) == 6
        for call in (send_all(iter([LARGE])), _all(talk(iter([SMALL, LARGE])))):
            with pytest.raises(aio.AioRpcError) as caught:
                await call
            assert caught.value.code() is CODE.INVALID_ARGUMENT


async def _all(call: Any) -> list[bytes]:
    return [response async for response in call]


@OTHERS
async def test_a_cancelled_stream_releases_its_consumer(outer: Outer) -> None:
    made = engine(max_consumers_per_topic=1)
    follow: Any = grpc.stream_stream_rpc_method_handler(_follow)
    async with serving(made, Broker(), {"Follow": follow}, before=[outer()]) as served:
        call = served.channel.stream_stream("/t.Broker/Follow")()
        await call.write(subscribe("d"))
        await call.read()
        assert consumers(made) == 1
        call.cancel()
        with suppress(asyncio.CancelledError):
            await call.code()
        await until_so(lambda: not consumers(made))


def _around_an_instrumented_channel(channel: Any, made: PolicyEngine) -> Any:
    untyped: Any = (intercept_channel, client_interceptor)
    intercept, interceptor = untyped
    return grpc.intercept_channel(intercept(channel, interceptor()), PolicyClientInterceptor(made, MAP))


def test_a_client_interceptor_goes_on_around_an_instrumented_channel() -> None:
    made = engine(max_message_size=100, max_consumers_per_topic=1)
    with sync_serving(made, Broker(messages=3), policed=False) as served:
        served.channel = _around_an_instrumented_channel(served.channel, made)
        assert number(served.unary("Create", create("a"))) == 1
        assert number(served.future("Create", create("a")).result(LONG_S)) == 2
        assert refused(served.unary, "Send", message({1: 1, 2: b"x" * 101})).code is CODE.INVALID_ARGUMENT
        assert number(served.unary("Subscribe", subscribe("c"))) == 3
        assert [number(response) for response in served.stream("Receive", message({1: 3}))] == [1, 2, 3]
        send_all = served.channel.stream_unary("/t.Broker/SendAll")
        assert number(send_all(iter([SMALL] * 2))) == 2
        talk = served.channel.stream_stream("/t.Broker/Talk")
        assert len(list(talk(iter([SMALL] * 2)))) == 2
        for call in (send_all, lambda requests: list(talk(requests))):
            assert refused(call, iter([SMALL, LARGE])).code is CODE.INVALID_ARGUMENT


@pytest.mark.parametrize("ends_by", ["an error", "nobody who reads on"])
def test_a_stream_of_an_instrumented_channel_releases_its_consumer(ends_by: str) -> None:
    made = engine(max_consumers_per_topic=1)
    with sync_serving(made, Broker(messages=3), policed=False) as served:
        served.channel = _around_an_instrumented_channel(served.channel, made)
        served.unary("Subscribe", subscribe("c"))
        call = served.stream("Receive", message({1: 1, 2: "crash"}))
        assert number(next(call)) == 1
        if ends_by == "an error":
            with pytest.raises(grpc.RpcError) as caught:
                list(call)
            assert told(caught.value).code is CODE.UNKNOWN
        del call
        until(lambda: not consumers(made))
