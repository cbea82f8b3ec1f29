"""A tiny broker on grpc.aio with the interceptor, and a channel to it."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any

import grpc
from grpc import aio
from tests.grpc.lab import MAP, SERVICE, Broker, P, message
from tests.grpc.lab import handlers as service

from sluicegate.embedded import PolicyEngine
from sluicegate_grpc.aio import PolicyServerInterceptor


class Behaviors:
    """The broker's handlers; `hold` in a request keeps it waiting, `stay` keeps a stream open."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.blocked = asyncio.Event()
        self.go = asyncio.Event()
        self.cancelled = asyncio.Event()

    async def _wait(self, request: bytes) -> None:
        if b"hold" in request:
            self.blocked.set()
            try:
                await self.go.wait()
            except asyncio.CancelledError:
                self.cancelled.set()
                raise

    async def Create(self, request: bytes, context: Any) -> bytes:  # noqa: N802
        await self._wait(request)
        return self.broker.attach(request)

    Subscribe = Create

    async def Send(self, request: bytes, context: Any) -> bytes:  # noqa: N802
        await self._wait(request)
        return self.broker.publish(request)

    async def SendAll(self, requests: AsyncIterator[bytes], context: Any) -> bytes:  # noqa: N802
        async for request in requests:
            self.broker.publish(request)
        return message({1: self.broker.sent})

    async def Talk(self, requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:  # noqa: N802
        async for request in requests:
            self.broker.publish(request)
            yield message({1: self.broker.sent})

    async def Receive(self, request: bytes, context: Any) -> AsyncIterator[bytes]:  # noqa: N802
        for each in self.broker.deliveries():
            yield each
        if b"stay" in request:
            self.blocked.set()
            await self.go.wait()
        if b"crash" in request:
            raise RuntimeError("crash")

    async def Follow(self, requests: AsyncIterator[bytes], context: Any) -> None:  # noqa: N802
        for each in self.broker.deliveries():
            await context.write(each)
        assert await context.read() != aio.EOF
        self.blocked.set()
        while await context.read() != aio.EOF:
            pass

    async def Ack(self, request: bytes, context: Any) -> bytes:  # noqa: N802
        return b""

    Ping = Leave = Other = Ack


class Served:
    """A running server and a channel to it."""

    def __init__(self, engine: PolicyEngine, broker: Broker, **options: Any) -> None:
        self.engine = engine
        self.broker = broker
        self.behaviors = Behaviors(broker)
        self.interceptor = PolicyServerInterceptor(engine, MAP, **options)
        self.port = 0
        self.channel: Any  # what is sent is bytes, for which it has no types

    def unary(self, name: str, request: bytes, **options: Any) -> Any:
        return self.channel.unary_unary(P + name)(request, **options)

    def stream(self, name: str, request: bytes) -> Any:
        return self.channel.unary_stream(P + name)(request)

    def other_channel(self) -> Any:
        # Of its own, or gRPC would share the connection.
        options = (("grpc.use_local_subchannel_pool", 1),)
        return aio.insecure_channel(f"127.0.0.1:{self.port}", options=options)


@asynccontextmanager
async def serving(
    engine: PolicyEngine,
    broker: Broker | None = None,
    handlers: Mapping[str, Any] = MappingProxyType({}),
    before: Sequence[aio.ServerInterceptor] = (),
    **options: Any,
) -> AsyncIterator[Served]:
    """A server with the interceptor.

    :param handlers: take the place of the broker's own, by name.
    :param before: interceptors that see a call first.
    """
    served = Served(engine, broker or Broker(), **options)
    server = aio.server(interceptors=[*before, served.interceptor])
    chosen = grpc.method_handlers_generic_handler(SERVICE, dict(handlers))
    server.add_generic_rpc_handlers((chosen, service(served.behaviors)))
    served.port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with aio.insecure_channel(f"127.0.0.1:{served.port}") as channel:
            served.channel = channel
            yield served
    finally:
        served.behaviors.go.set()
        await server.stop(None)
        engine.close()
