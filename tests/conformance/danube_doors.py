"""Danube's doors: the proxy, gRPC's interceptors of both kinds in servers and channels, danube-client."""

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

import grpc.aio
from tests.conformance.danube_stubs import StubDoor, Stubs
from tests.conformance.danube_wrapper import WrapperDoor
from tests.conformance.relay import relay
from tests.danube.support.gates import gate, write_file

from sluicegate.embedded import PolicyEngine
from sluicegate.model import ANONYMOUS
from sluicegate.testing.conformance import Ability, DoorKind, Driver, Setup, without_in_clients
from sluicegate.testing.sink import RecordingSink
from sluicegate_danube.plugin import DanubeDriver
from sluicegate_danube.principals import principal
from sluicegate_danube.reference import ReferenceBroker
from sluicegate_grpc import aio, sync

_OWN = [("grpc.use_local_subchannel_pool", 1)]
"""A connection of its own: gRPC shares those of equal channels in one process."""
_SILENCE = {"ghost_release": "30min"}
"""Of a client of which nothing is heard, however slow the machine is."""
_THREADS = 200


@asynccontextmanager
async def _broker(setup: Setup, interceptors: Any = ()) -> AsyncIterator[str]:
    async with ReferenceBroker(interceptors=interceptors) as broker:
        for topic in setup.topics:
            broker.create_topic(topic, reliable=True)
        yield broker.addresses[0]


class _Engine(AsyncExitStack):
    """An engine in this process, and what uses it."""

    def __init__(self, setup: Setup, broker: str, **options: Any) -> None:
        super().__init__()
        self.sink = RecordingSink()
        self.file = write_file(setup.directory, [broker], setup.policies, {**_SILENCE, **setup.entry})
        self.engine = self.enter_context(PolicyEngine.from_file(self.file, sink=self.sink, **options))

    def intercepting(self, interceptors: Callable[..., Any]) -> Any:
        """Interceptors with the engine."""
        return interceptors(self.engine, self.engine.method_map(), principal=_principal, ghost_release_s=1800)

    async def door(self, address: str, *interceptors: Any) -> StubDoor:
        """A door for stubs on a channel of `grpc.aio`."""
        made = grpc.aio.insecure_channel(address, _OWN, interceptors=interceptors)
        stubs = Stubs(await self.enter_async_context(made))
        return StubDoor(stubs, self.sink, self.file, self.engine.gates.states.__getitem__)


@asynccontextmanager
async def _proxy(setup: Setup) -> AsyncIterator[StubDoor]:
    """The wire proxy in front of the broker."""
    async with (
        _broker(setup) as broker,
        gate(setup.directory, [broker], setup.policies, **_SILENCE, **setup.entry) as through,
        grpc.aio.insecure_channel(through.address, _OWN) as channel,
    ):
        yield StubDoor(Stubs(channel), through.sink, setup.directory / "gateway.yaml", through.state)


@asynccontextmanager
async def _aio_server(setup: Setup) -> AsyncIterator[StubDoor]:
    """Interceptors in the broker's own server."""
    async with _Engine(setup, "127.0.0.1:1") as own:
        interceptor = own.intercepting(aio.PolicyServerInterceptor)
        broker = await own.enter_async_context(_broker(setup, [interceptor]))
        yield await own.door(broker)


@asynccontextmanager
async def _sync_server(setup: Setup) -> AsyncIterator[StubDoor]:
    """An interceptor in a server with threads, which passes the calls on to the broker."""
    async with _broker(setup) as broker, _Engine(setup, broker) as own:
        interceptor = own.intercepting(sync.PolicyServerInterceptor)
        yield await own.door(own.enter_context(relay(broker, interceptor)))


@asynccontextmanager
async def _aio_client(setup: Setup) -> AsyncIterator[StubDoor]:
    """Interceptors in a client."""
    async with _broker(setup) as broker, _Engine(setup, broker) as own:
        yield await own.door(broker, *own.intercepting(aio.policy_client_interceptors))


@asynccontextmanager
async def _sync_client(setup: Setup) -> AsyncIterator[StubDoor]:
    """An interceptor in a client with threads."""
    async with _broker(setup) as broker, _Engine(setup, broker) as own:
        pool = own.enter_context(ThreadPoolExecutor(_THREADS))
        bare = own.enter_context(grpc.insecure_channel(broker, _OWN))
        channel = grpc.intercept_channel(bare, own.intercepting(sync.PolicyClientInterceptor))

        async def in_thread(call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(pool, partial(call, *arguments, **options))

        yield StubDoor(Stubs(channel, in_thread), own.sink, own.file, own.engine.gates.states.__getitem__)


@asynccontextmanager
async def _wrapper(setup: Setup) -> AsyncIterator[WrapperDoor]:
    """danube-client's classes with the policies in their process."""
    async with _broker(setup) as broker, _Engine(setup, broker, door="client") as own:
        door = WrapperDoor(own.engine, f"http://{broker}", own.sink, own.file)
        own.push_async_callback(door.close)
        yield door


def _principal(call: Any) -> str:
    """As the proxy reads it, of a server's context or a client's metadata."""
    metadata = call.invocation_metadata() if hasattr(call, "invocation_metadata") else call
    return principal(tuple(metadata or ())) or ANONYMOUS


_STUBS = frozenset({Ability.ACKNOWLEDGE, Ability.HEADERS, Ability.SCHEMA, Ability.PRINCIPAL})
_CLIENTS = (_STUBS - {Ability.SCHEMA}) | {Ability.PRODUCERS_LEAVE}
_NOT_IN_CLIENTS = without_in_clients("danube", DanubeDriver.capabilities)
DRIVER = Driver(
    "danube",
    DanubeDriver.capabilities,
    {
        "proxy": DoorKind(_proxy, _STUBS),
        "grpc server, aio": DoorKind(_aio_server, _STUBS),
        "grpc server, sync": DoorKind(_sync_server, _STUBS),
        "grpc client, aio": DoorKind(_aio_client, _STUBS),
        "grpc client, sync": DoorKind(_sync_client, _STUBS),
        "danube-client": DoorKind(_wrapper, _CLIENTS, _NOT_IN_CLIENTS),
    },
    topic=lambda name: f"/default/{name}",
)
