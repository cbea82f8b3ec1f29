"""Probes over real sockets: what counts as an answer, and the result without one."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic_ns
from typing import cast

import pytest
from tests.gateway.lab import closed_port, lab, on_uvloop, upstream

from sluicegate.net.dialling import Dialler, Prober
from sluicegate.net.reachability import Reachability
from sluicegate.net.tls import TlsContexts

_PATIENCE_S = 60


async def probed(port: int, greeting: bytes = b"", limit_s: float = _PATIENCE_S) -> Reachability:
    """What one probe of a port finds."""
    found = Reachability([("127.0.0.1", port)], monotonic_ns())
    dialler = Dialler(TlsContexts(), limit_s, asyncio.get_running_loop())
    prober = Prober(found, dialler, greeting)
    await prober.first(_PATIENCE_S)
    await prober.stop()
    return found


async def dialled(host: str, port: int, refuses: str = "") -> str:
    """The address that is connected to, where one address is refused."""
    dialler = Dialler(
        TlsContexts(),
        _PATIENCE_S,
        asyncio.get_running_loop(),
        lambda place, resolved: f"{place[0]} is {refuses}" if resolved == refuses else "",
    )
    protocol = await dialler.dial(_Named, (host, port))
    return protocol.address


class _Named(asyncio.Protocol):
    address = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.address = transport.get_extra_info("peername")[0]
        transport.close()


async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


@contextmanager
def swallowing() -> Iterator[int]:
    """A port that leaves connections unanswered: nothing accepts, and its backlog is full."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(0)
        port: int = silent.getsockname()[1]
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
        try:
            yield port
        finally:
            for filler in fillers:
                filler.close()


@pytest.mark.parametrize("greeting", [b"", b"hello"])
def test_a_broker_that_answers_is_up(greeting: bytes) -> None:
    @on_uvloop
    async def probe() -> None:
        async with upstream() as port:
            assert (await probed(port, greeting)).snapshot()["up"]

    probe()


@on_uvloop
async def test_without_a_greeting_a_connection_suffices() -> None:
    async with upstream(hang_up) as port:
        assert (await probed(port)).is_up


@on_uvloop
async def test_a_broker_that_hangs_up_on_the_greeting_is_down() -> None:
    async with upstream(hang_up) as port:
        found = await probed(port, b"hello")
    assert found.reason == f"127.0.0.1:{port}: closes connections without an answer"
    assert found.is_up is False


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "answers in HTTP/1, as no broker does: check the port"),
        (b"\x15\x03\x03\0\x02\x02\x46", "answers with an alert of TLS: check 'tls.broker' and the port"),
    ],
)
def test_another_server_at_the_brokers_address_is_no_broker(answer: bytes, reason: str) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(answer)
        await writer.drain()
        writer.close()

    @on_uvloop
    async def probe() -> None:
        async with upstream(serve) as port:
            found = await probed(port, b"hello")
        assert found.reason == f"127.0.0.1:{port}: {reason}"
        assert found.is_up is False

    probe()


@on_uvloop
async def test_a_port_without_listener_is_down() -> None:
    port = closed_port()
    assert (await probed(port)).reason == f"127.0.0.1:{port}: connection refused"


@on_uvloop
async def test_a_port_that_never_answers_times_out() -> None:
    with swallowing() as port:
        found = await probed(port, limit_s=0.2)
    assert found.reason == f"127.0.0.1:{port}: no answer within 0.2 s"
    assert found.is_silent(("127.0.0.1", port))


@on_uvloop
async def test_clients_skip_an_address_that_timed_out_before() -> None:
    with swallowing() as port:
        async with lab(port, dial_s=0.2) as it:
            reader, writer = await it.connect()
            writer.write(b"hello\n")
            assert await reader.read() == b""
            writer.close()
            await it.until(lambda: it.connections.reachability.is_silent(("127.0.0.1", port)))
            for _ in range(20):
                reader, writer = await it.connect()
                writer.write(b"hello\n")
                assert await reader.read() == b""
                writer.close()
            assert it.counts["upstream_dials_failed"] == 1
            assert it.counts["upstream_unreachable"] == 21


@on_uvloop
async def test_a_refused_address_is_not_connected_to_whatever_its_name() -> None:
    reached = 0

    async def count(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal reached
        reached += 1
        writer.close()

    async with upstream(count) as port:
        for host in ("127.0.0.1", "127.1", "0x7f.1", "2130706433"):
            with pytest.raises(ConnectionError, match=f"{host} is 127.0.0.1"):
                await dialled(host, port, refuses="127.0.0.1")
        assert reached == 0
        assert await dialled("localhost", port) == "127.0.0.1"
        assert await dialled("127.0.0.1", port, refuses="::1") == "127.0.0.1"


@on_uvloop
async def test_the_addresses_of_a_host_are_tried_in_turn() -> None:
    async with upstream(hang_up) as port:
        dialler = Dialler(TlsContexts(), _PATIENCE_S, resolving("127.0.0.9", "::1", "127.0.0.1"))
        assert (await dialler.dial(_Named, ("broker", port))).address == "127.0.0.1"
        dialler = Dialler(TlsContexts(), _PATIENCE_S, resolving())
        with pytest.raises(ConnectionError, match="its host has no address"):
            await dialler.dial(_Named, ("broker", port))


def resolving(*addresses: str) -> asyncio.AbstractEventLoop:
    return cast("asyncio.AbstractEventLoop", _Resolving(*addresses))


class _Resolving:
    """The running loop, with addresses for every host."""

    def __init__(self, *addresses: str) -> None:
        self._addresses = addresses
        self.create_connection = asyncio.get_running_loop().create_connection

    async def getaddrinfo(self, host: str, port: int, **options: object) -> list[object]:
        return [(0, 0, 0, "", (address, port)) for address in self._addresses]
