"""Policies that read messages and change their headers, in grpc.aio's servers and clients."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import grpc
import pytest
from grpc import aio
from tests.grpc.interceptors.aio.serving import serving
from tests.grpc.interceptors.aio.test_client import policed
from tests.grpc.interceptors.messages import Decoded, Opaque, bytes_of, with_headers
from tests.grpc.lab import Broker, P, create, engine, number, told

from sluicegate.embedded import PolicyEngine

DOORS = ["server", "client"]
Door = Callable[..., AbstractAsyncContextManager[tuple[Any, Broker]]]


@pytest.fixture(params=DOORS)
def door(request: pytest.FixtureRequest) -> Door:
    """A channel through the interceptor of a server, or with those of a client; and the broker."""

    @asynccontextmanager
    async def at(made: PolicyEngine) -> AsyncIterator[tuple[Any, Broker]]:
        broker = Broker()
        if request.param == "server":
            async with serving(made, broker) as served:
                yield served.channel, broker
        else:
            async with policed(made, broker) as channel:
                yield channel, broker

    return at


async def requests(*each: bytes) -> AsyncIterator[bytes]:
    for request in each:
        yield request


async def refused(call: Any) -> Any:
    with pytest.raises(aio.AioRpcError) as caught:
        await call
    return told(caught.value)


async def test_a_publish_without_a_required_header_is_refused(door: Door) -> None:
    async with door(engine(required_headers="trace")) as (channel, broker):
        producer = number(await channel.unary_unary(P + "Create")(create("a")))
        send = channel.unary_unary(P + "Send")
        await send(with_headers("trace", producer=producer))
        error = await refused(send(with_headers(producer=producer)))
        assert (error.code, error.info.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "REQUIRED_HEADERS")
        assert broker.sent == 1


async def test_a_header_is_removed(door: Door) -> None:
    async with door(engine(remove_headers="x-*")) as (channel, broker):
        producer = number(await channel.unary_unary(P + "Create")(create("a")))
        await channel.unary_unary(P + "Send")(with_headers("x-a", "b", producer=producer))
        assert broker.last == with_headers("b", producer=producer)


async def test_a_header_is_removed_from_each_message_of_a_stream(door: Door) -> None:
    async with door(engine(remove_headers="x")) as (channel, broker):
        await channel.stream_unary(P + "SendAll")(requests(with_headers("x"), with_headers("x", "b")))
        assert broker.last == with_headers("b")
        async for _ in channel.stream_stream(P + "Talk")(requests(with_headers("x", "c"))):
            assert broker.last == with_headers("c")
        assert broker.sent == 3


async def test_a_delayed_message_is_changed_once_it_passes(door: Door) -> None:
    policies: dict[str, Any] = {
        "max_publish_rate": 5,
        "burst_seconds": 0.2,
        "on_limit__max_publish_rate": "delay",
    }
    async with door(engine(remove_headers="x", **policies)) as (channel, broker):
        producer = number(await channel.unary_unary(P + "Create")(create("a")))
        for _ in range(2):
            await channel.unary_unary(P + "Send")(with_headers("x", "b", producer=producer))
            assert broker.last == with_headers("b", producer=producer)


async def _of_type(kind: type[Any], at_server: bool, got: list[Any], made: PolicyEngine) -> Any:
    """Publish one message that is of a type at the interceptor."""

    async def send(request: Any, context: Any) -> bytes:
        got.append(request)
        return b""

    if at_server:
        handler = grpc.unary_unary_rpc_method_handler(send, kind, bytes)
        async with serving(made, handlers={"SendAll": handler}) as served:
            return await served.channel.unary_unary(P + "SendAll")(with_headers("x", "b"))
    async with policed(made) as channel:
        call = channel.unary_unary(P + "SendAll", request_serializer=bytes_of)
        return await call(kind(with_headers("x", "b")))


async def test_a_decoded_message_is_read_and_made_anew() -> None:
    got: list[Any] = []
    await _of_type(Decoded, True, got, engine(required_headers="b", remove_headers="x"))
    assert got == [Decoded(with_headers("b"))]


async def test_a_message_that_cannot_be_encoded_is_refused_by_what_must_read_it() -> None:
    error = await refused(_of_type(Opaque, True, [], engine(required_headers="b")))
    assert error.code is grpc.StatusCode.INVALID_ARGUMENT
    assert "cannot be read: expected a protobuf message or bytes, got Opaque" in error.text


class Encoding(Opaque):
    """A message that can be encoded, and not made."""

    def SerializeToString(self) -> bytes:  # noqa: N802
        return self.data


@pytest.mark.parametrize("at_server", [True, False], ids=DOORS)
async def test_headers_that_cannot_be_changed_are_refused_not_passed(at_server: bool) -> None:
    got: list[Any] = []
    error = await refused(_of_type(Encoding, at_server, got, engine(remove_headers="x")))
    assert error.code is grpc.StatusCode.INVALID_ARGUMENT
    assert "cannot be changed: Encoding is no class of protobuf messages. Policy remove_headers" in error.text
    assert not got
