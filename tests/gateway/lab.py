"""Loopback pieces: an upstream that echoes, and the gateway's connections in front of it."""

import asyncio
import functools
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from time import monotonic_ns
from typing import Any, ParamSpec

import uvloop
from tests.gateway.echo_plugin import EchoConfig, EchoFront
from tests.waiting import LONG_S, until_so

from sluicegate.broker import Listener
from sluicegate.demo.ports import free_ports
from sluicegate.net.connections import Connections
from sluicegate.net.limits import Limits
from sluicegate.net.listening.acceptor import Acceptor
from sluicegate.net.reachability import Reachability
from sluicegate.net.tls import TlsContexts

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
P = ParamSpec("P")

LIMITS = Limits(
    max_connections=100,
    idle_ns=0,
    frame_ns=0,
    buffer_bytes=0,
    answer_s=LONG_S,
    dial_s=LONG_S,
    handshake_s=LONG_S,
)


def on_uvloop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run an asynchronous test on the loop that the product runs on."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        uvloop.run(asyncio.wait_for(test(*args, **kwargs), LONG_S))

    return run


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


@asynccontextmanager
async def upstream(
    handler: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]] = echo,
    port: int = 0,
    **options: Any,
) -> AsyncIterator[int]:
    """A broker: the port that it listens on."""
    writers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        try:
            await handler(reader, writer)
        except ConnectionError:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", port, **options)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for writer in writers:
            writer.transport.abort()
        await asyncio.sleep(0.01)


def module_path() -> str:
    """What a child process needs as `PYTHONPATH` to import the tests, and the source that is tested here."""
    root = str(Path(__file__).parents[2])
    return os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))


def closed_port() -> int:
    """A port that refuses connections. The kernel takes it for no outgoing connection meanwhile."""
    return free_ports(1)


class Lab:
    """Connections with one listener."""

    def __init__(self, front: EchoFront, connections: Connections, acceptor: Acceptor) -> None:
        self.front = front
        self.connections = connections
        self.acceptor = acceptor
        self.counts = connections.counts
        self.writers: list[asyncio.StreamWriter] = []

    async def connect(self, **options: Any) -> Streams:
        host, port = self.acceptor.address
        reader, writer = await asyncio.open_connection(host, port, **options)
        self.writers.append(writer)
        return reader, writer

    async def sweep(self, after_s: float = 0.0) -> None:
        """Sweep as if so much time had passed."""
        await self.connections.sweep(monotonic_ns() + int(after_s * 1e9))

    async def until(self, condition: Callable[[], object]) -> None:
        await until_so(condition)

    async def say(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        """Write, and return once the gateway has read it: what comes next is read apart from it."""
        read = self.connections.bytes_from_clients
        writer.write(data)
        await self.until(lambda: self.connections.bytes_from_clients >= read + len(data))

    async def served(self, count: int) -> None:
        """Return once so many clients are connected through to their brokers."""
        await self.until(lambda: len(self.connections) == count and not self.connections._tasks)

    async def settled(self, value: Callable[[], object]) -> None:
        """Return once a value stays as it is while the loop, which runs both ends, turns on and on."""
        turns, before = 0, value()
        while turns < 500:
            await asyncio.sleep(0)
            turns, before = (turns + 1, before) if value() == before else (0, value())


@asynccontextmanager
async def lab(
    *ports: int, name: str = "bootstrap", tls: TlsContexts | None = None, **limits: Any
) -> AsyncIterator[Lab]:
    """The gateway's connections before upstreams on these ports of this host."""
    addresses = tuple(("127.0.0.1", port) for port in ports)
    config = EchoConfig.model_validate(
        {"name": "echo", "system": "echo", "bootstrap": ["127.0.0.1:1"], "listen": {"port": 0}}
    )
    front = EchoFront(config)
    loop = asyncio.get_running_loop()
    connections = Connections(
        front, replace(LIMITS, **limits), tls or TlsContexts(), loop, Reachability((), monotonic_ns())
    )
    acceptor = await Acceptor.open(Listener(name, "127.0.0.1", 0, addresses), connections)
    it = Lab(front, connections, acceptor)
    try:
        yield it
    finally:
        acceptor.close()
        await connections.abort()
        for writer in it.writers:
            writer.transport.abort()
        await asyncio.sleep(0.01)
