"""Clients that begin a TLS handshake and stall do not block an HTTP server."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import pytest
from starlette.responses import PlainTextResponse
from tests.gateway.certificates import Authority
from tests.gateway.lab import on_uvloop
from tests.net.test_http_heads import WHOLE, answer, connections
from tests.waiting import LONG_S

from sluicegate.net.http import HttpServer


class Lab:
    """TLS of both sides."""

    def __init__(self, directory: Path) -> None:
        authority = Authority(directory)
        self.server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.server.load_cert_chain(*authority.issue("gate", "localhost"))
        self.client = ssl.create_default_context(cafile=authority.ca)

    @asynccontextmanager
    async def serving(self, count: int = 100, head_s: float = LONG_S) -> AsyncIterator[HttpServer]:
        app = PlainTextResponse("hello")
        server = HttpServer(app, "127.0.0.1", 0, "test", self.server, connections=count, head_s=head_s)
        server.start()
        try:
            yield server
        finally:
            await server.stop()

    def connect(self, server: HttpServer) -> ssl.SSLSocket:
        """A client that reads nothing by itself, and so takes no leave either."""
        return self.client.wrap_socket(socket.create_connection(server.address), server_hostname="localhost")

    async def ask(self, server: HttpServer) -> bytes:
        reader, writer = await asyncio.open_connection(
            *server.address, ssl=self.client, server_hostname="localhost"
        )
        try:
            return await answer((reader, writer), WHOLE)
        finally:
            writer.close()


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


@on_uvloop
async def test_an_endless_handshake_times_out(lab: Lab) -> None:
    async with lab.serving(head_s=0.05) as server, connections(server, 1, b"\x16\x03\x01") as [one]:
        assert await answer(one) == b""


@on_uvloop
async def test_too_many_handshakes_close_the_oldest(lab: Lab) -> None:
    async with lab.serving(count=20) as server, connections(server, 30, b"\x16\x03\x01") as waiting:
        assert [await answer(each) for each in waiting[:20]] == [b""] * 20
        assert (await lab.ask(server)).endswith(b"hello")
        assert not waiting[-1][0].at_eof()


@on_uvloop
async def test_idle_clients_that_take_no_leave_give_way(lab: Lab) -> None:
    async with lab.serving(count=20) as server:
        with ExitStack() as opened:
            idle = [opened.enter_context(await asyncio.to_thread(lab.connect, server)) for _ in range(30)]
            assert [await asyncio.to_thread(each.recv, 1) for each in idle[:20]] == [b""] * 20
            assert (await lab.ask(server)).startswith(b"HTTP/1.1 200 ")
