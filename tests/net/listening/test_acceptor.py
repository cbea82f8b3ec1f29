import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any

import pytest
from tests.gateway.lab import lab, module_path, on_uvloop, upstream
from tests.waiting import until_so

from sluicegate.broker import Listener
from sluicegate.net.listening.acceptor import Acceptor

_STARVED = """
import asyncio, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (48, 48))
import uvloop
from sluicegate.runtime import logs
from tests.gateway.lab import lab

async def main():
    async with lab(int(sys.argv[1]), max_connections=10_000) as it:
        print(it.acceptor.address[1], flush=True)
        line = ""
        while line != "stop":
            line = (await asyncio.to_thread(sys.stdin.readline)).strip()
            print(it.counts["descriptors_used_up"], len(it.connections), flush=True)

logs.set_up("info", "text")
uvloop.run(main())
"""


class Starved:
    """A gateway with 48 descriptors, in a process of its own."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process, self.stdin, self.stdout = process, process.stdin, process.stdout
        self.port = 0

    async def ask(self, line: str = "how many") -> tuple[int, int]:
        """How often descriptors were used up, and how many clients there are."""
        self.stdin.write(line.encode() + b"\n")
        used_up, live = (await self.stdout.readline()).split()
        return int(used_up), int(live)

    async def connect(self) -> asyncio.StreamWriter | None:
        """A connection that is served; None if it was closed."""
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            writer.write(b"hello\n")
            if await reader.readline() == b"hello\n":
                return writer
            writer.close()
        except ConnectionError:
            pass
        return None


@asynccontextmanager
async def starved(port: int) -> AsyncIterator[Starved]:
    pipe = asyncio.subprocess.PIPE
    environ = {**os.environ, "PYTHONPATH": module_path()}
    command = [sys.executable, "-c", _STARVED, str(port)]
    process = await asyncio.create_subprocess_exec(
        *command, stdin=pipe, stdout=pipe, stderr=pipe, env=environ
    )
    it = Starved(process)
    try:
        it.port = int(await it.stdout.readline())
        yield it
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@on_uvloop
async def test_without_descriptors_only_new_clients_are_refused() -> None:
    began = monotonic()
    async with upstream() as port, starved(port) as gate:
        first = [await gate.connect() for _ in range(5)]
        assert all(first)
        later = [await gate.connect() for _ in range(30)]
        assert later.count(None) > 5  # closed cleanly, not left hanging
        used_up, live = await gate.ask()
        assert used_up > 0
        for writer in [*first, *later]:
            if writer is not None:
                writer.close()
        while live > 0:
            _, live = await gate.ask()
        while (again := await gate.connect()) is None:  # others are served when descriptors are free again
            pass
        again.close()
        await gate.ask("stop")
        assert gate.process.stderr is not None
        log = (await gate.process.stderr.read()).decode()
        assert 0 < log.count("file descriptors used up") <= 1 + monotonic() - began  # one a second


class Counted:
    """Takes the clients of an acceptor, and serves none of them."""

    def __init__(self, loop: asyncio.AbstractEventLoop, is_tls: bool) -> None:
        self.loop = loop
        self.is_client_tls = is_tls
        self.clients: list[socket.socket] = []

    def refusal(self, host: str) -> str:
        """Everybody may come in."""
        return ""

    def accept(self, client: socket.socket, peer: str, listener: Listener) -> None:
        """Keep a client."""
        self.clients.append(client)


@on_uvloop
@pytest.mark.parametrize(("is_tls", "at_once"), [(False, 8), (True, 2)])
async def test_a_turn_accepts_few_clients_and_fewer_with_tls(is_tls: bool, at_once: int) -> None:
    loop = asyncio.get_running_loop()
    counted: Any = Counted(loop, is_tls)
    acceptor = await Acceptor.open(Listener("main", "127.0.0.1", 0, ()), counted)
    waiting = [socket.create_connection(acceptor.address) for _ in range(20)]
    try:
        acceptor._ready()
        assert len(counted.clients) == at_once
        await until_so(lambda: len(counted.clients) == len(waiting))
    finally:
        acceptor.close()
        for each in (*waiting, *counted.clients):
            each.close()


@on_uvloop
async def test_an_address_in_use_is_named_in_the_error() -> None:
    async with upstream() as port, lab(port) as it:
        host, taken = it.acceptor.address
        second = Listener("second", host, taken, (("127.0.0.1", port),))
        with pytest.raises(OSError, match=rf"cannot listen on {host}:{taken} \(second\)"):
            await Acceptor.open(second, it.connections)


@on_uvloop
async def test_closing_twice_is_safe_and_frees_the_port() -> None:
    async with upstream() as port, lab(port) as it:
        address = it.acceptor.address
        it.acceptor.close()
        it.acceptor.close()
        socket.create_server(address).close()


async def test_a_client_that_was_just_accepted_is_closed_with_all_others() -> None:
    async with upstream() as broker, lab(broker) as it:
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        it.connections.accept(theirs, "127.0.0.1:1", Listener("late", "127.0.0.1", 1, ()))
        await it.connections.abort()
        assert ours.recv(1) == b""
        ours.close()
        assert theirs.fileno() == -1


@on_uvloop
async def test_tcp_keepalive_is_set_on_accepted_sockets() -> None:
    """Within half a minute, so that one whose host is gone does not count against others."""
    options = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
    accepted: asyncio.Future[socket.socket] = asyncio.get_running_loop().create_future()
    async with upstream() as port, lab(port) as it:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(it.connections, "accept", lambda client, peer, at: accepted.set_result(client))
            _, writer = await asyncio.open_connection(*it.acceptor.address)
            with await accepted as client:
                assert client.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
                for name, value in options.items():
                    if hasattr(socket, name):
                        assert client.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) == value
            writer.close()
