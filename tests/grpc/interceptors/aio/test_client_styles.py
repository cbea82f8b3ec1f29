"""The four kinds of calls of a grpc.aio channel, by iterators and by write(): refusals end each alike."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import grpc
import pytest
from grpc import aio
from tests.grpc.interceptors.aio.test_client import CODE, policed, refused
from tests.grpc.lab import (
    TOPIC,
    Broker,
    P,
    consumers,
    create,
    engine,
    message,
    number,
    producers,
    subscribe,
    told,
)
from tests.waiting import LONG_S, until_so

LIMIT = 100
STYLES = pytest.mark.parametrize("style", ["iterator", "written"])


def publish(size: int) -> bytes:
    return message({1: TOPIC, 2: b"x" * size})


async def begin(kind: Any, style: str, *requests: bytes) -> Any:
    """A call that streams its requests; with `written`, as long as the call takes them."""
    if style == "iterator":

        async def every() -> AsyncIterator[bytes]:
            for request in requests:
                yield request

        return kind(every())
    call = kind()
    async with asyncio.timeout(LONG_S):
        try:
            for request in requests:
                await call.write(request)
            await call.done_writing()
        except asyncio.InvalidStateError:
            assert call.done() or (await call.code()) is not CODE.OK  # it was refused
    return call


async def answers(call: Any, style: str) -> list[int]:
    if style == "iterator":
        return [number(each) async for each in call]
    found = []
    while (each := await call.read()) is not aio.EOF:
        found.append(number(each))
    return found


async def is_told(call: Any) -> None:
    """What ended a call is told by all of its ways to ask."""
    assert await call.code() is CODE.INVALID_ARGUMENT
    assert "exceeds maximum" in await call.details()
    trailers = await call.trailing_metadata()
    assert "grpc-status-details-bin" in trailers
    assert call.done()
    assert not call.cancelled()


@STYLES
async def test_stream_unary(style: str) -> None:
    async with policed(engine(max_message_size=LIMIT)) as channel:
        kind = channel.stream_unary(P + "SendAll")
        assert number(await (await begin(kind, style, publish(1), publish(LIMIT)))) == 2
        call = await begin(kind, style, publish(1), publish(LIMIT + 1), publish(1), publish(1), publish(1))
        found = await refused(call)
        assert (found.code, found.info.reason) == (CODE.INVALID_ARGUMENT, "MAX_MESSAGE_SIZE")
        await is_told(call)
        assert channel.behaviors.broker.sent <= 3  # the call ends before what came ahead need have arrived


@STYLES
async def test_stream_stream(style: str) -> None:
    async with policed(engine(max_message_size=LIMIT)) as channel:
        kind = channel.stream_stream(P + "Talk")
        assert await answers(await begin(kind, style, publish(1), publish(LIMIT)), style) == [1, 2]
        call = await begin(kind, style, publish(LIMIT + 1), publish(1), publish(1), publish(1))
        with pytest.raises(aio.AioRpcError) as caught:
            await answers(call, style)
        assert told(caught.value).code is CODE.INVALID_ARGUMENT
        await is_told(call)


async def test_a_bidirectional_stream_alternates() -> None:
    async with policed(engine(max_message_size=LIMIT)) as channel:
        call = channel.stream_stream(P + "Talk")()
        async with asyncio.timeout(LONG_S):
            for turn in range(1, 6):
                await call.write(publish(turn))
                assert number(await call.read()) == turn
            with suppress(asyncio.InvalidStateError):  # where the refusal is quicker
                await call.write(publish(LIMIT + 1))
            with pytest.raises(aio.AioRpcError) as caught:
                await call.read()
        assert told(caught.value).code is CODE.INVALID_ARGUMENT


@STYLES
async def test_unary_unary_and_unary_stream(style: str) -> None:
    made = engine(max_producers_per_topic=1, max_consumers_per_topic=1)
    async with policed(made, Broker(messages=3)) as channel:
        assert number(await channel.unary_unary(P + "Create")(create("a"))) == 1
        assert (await refused(channel.unary_unary(P + "Create")(create("b")))).code is CODE.RESOURCE_EXHAUSTED
        consumer = number(await channel.unary_unary(P + "Subscribe")(subscribe("c")))
        call = channel.unary_stream(P + "Receive")(message({1: consumer}))
        assert await answers(call, style) == [1, 2, 3]
        call = channel.unary_stream(P + "Receive")(message({1: 99}))
        with pytest.raises(aio.AioRpcError) as caught:
            await answers(call, style)
        assert told(caught.value).code is await call.code() is CODE.NOT_FOUND


@STYLES
async def test_a_stream_that_subscribes_by_its_first_request(style: str) -> None:
    made = engine(max_consumers_per_topic=1)
    async with policed(made, Broker(messages=2)) as channel:
        kind = channel.stream_stream(P + "Follow")
        first = kind()
        async with asyncio.timeout(LONG_S):
            await first.write(subscribe("c"))
            assert [number(await first.read()), number(await first.read())] == [1, 2]
            second = await begin(kind, style, subscribe("d"), subscribe("d"), subscribe("d"))
            with pytest.raises(aio.AioRpcError) as caught:
                await answers(second, style)
            assert told(caught.value).code is CODE.RESOURCE_EXHAUSTED
            assert consumers(made) == 1
            await first.done_writing()
            assert await first.read() is aio.EOF
        await until_so(lambda: consumers(made) == 0)


async def test_a_stream_that_never_subscribes_is_refused() -> None:
    async with policed(engine(), Broker(messages=2)) as channel:
        call = await begin(channel.stream_stream(P + "Follow"), "written")
        with pytest.raises(aio.AioRpcError) as caught:
            await answers(call, "written")
        assert told(caught.value).code is CODE.INVALID_ARGUMENT


async def test_a_stream_cancelled_while_it_waits_leaves_nothing_behind() -> None:
    made = engine(max_consumers_per_topic=1)
    async with policed(made, Broker(messages=2)) as channel:
        call = channel.stream_stream(P + "Follow")()
        async with asyncio.timeout(LONG_S):
            await call.write(subscribe("c"))
            assert number(await call.read()) == 1
        call.cancel()
        await until_so(lambda: consumers(made) == 0)
        idle = channel.stream_stream(P + "Follow")()
        reading = asyncio.ensure_future(idle.read())
        await until_so(lambda: not idle._interceptors_task.cancelled() and idle._interceptors_task.done())
        idle.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading


async def test_a_stream_of_publishes_releases_its_producers_at_its_end() -> None:
    made = engine(max_producers_per_topic=1)
    async with policed(made) as channel:
        call = channel.stream_unary(P + "SendAll")()
        async with asyncio.timeout(LONG_S):
            await call.write(publish(1))
            await call.done_writing()
            assert number(await call) == 1
        assert producers(made) == 0
        assert await call.code() is grpc.StatusCode.OK
