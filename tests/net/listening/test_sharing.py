import asyncio
import os
import socket
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import pytest
from tests.gateway.echo_plugin import EchoConfig, EchoFront
from tests.gateway.lab import LIMITS, module_path, on_uvloop
from tests.waiting import until_so

from sluicegate.broker import Listener, Wait
from sluicegate.model import CloseReason, ConnectionEvent
from sluicegate.net.limits import Limits
from sluicegate.net.listening import descriptors
from sluicegate.net.listening.acceptor import Acceptor
from sluicegate.net.listening.shared_counts import SharedCounts, shared_memory
from sluicegate.net.listening.sharing import Siblings

_CONFIG = {"name": "echo", "system": "echo", "bootstrap": ["127.0.0.1:1"], "listen": {"port": 0}}


class ByLetter(EchoFront):
    """Clients that begin with the same letter belong together; the letter comes after three others."""

    def affinity(self, listener: Listener, host: str, first: bytes) -> bytes | Wait | None:
        return Wait(4) if len(first) < 4 else first[3:4]


class Broken(EchoFront):
    def affinity(self, listener: Listener, host: str, first: bytes) -> bytes | Wait | None:
        raise RuntimeError("no affinity")


class Serving:
    """Stands for `Connections`: says who it is, and what it reads."""

    is_client_tls = False

    def __init__(self, index: int, front: type[EchoFront], limits: Limits) -> None:
        self.index = index
        self.front = front(EchoConfig.model_validate(_CONFIG))
        self.limits = limits
        self.loop = asyncio.get_running_loop()
        self.clients: list[tuple[socket.socket, str, Listener]] = []
        self.counts: Counter[str] = Counter()
        self.refuses: ConnectionEvent | None = None

    def __len__(self) -> int:
        return len(self.clients)

    def refusal(self, address: str) -> ConnectionEvent | None:
        return self.refuses

    def refused(self, peer: str, refusal: ConnectionEvent) -> None:
        self.count(refusal)

    def descriptors_used_up(self, error: OSError) -> None:
        self.count(ConnectionEvent.DESCRIPTORS_USED_UP)

    def count(self, event: ConnectionEvent | CloseReason) -> None:
        self.counts[str(event)] += 1

    def accept(self, client: socket.socket, peer: str, listener: Listener) -> None:
        self.clients.append((client, peer, listener))


class Workers:
    """Workers of one broker, in one process, which accept from one socket."""

    def __init__(self, count: int, front: type[EchoFront], limits: Limits) -> None:
        self.pairs = [descriptors.pair() for _ in range(count)]
        self.memory = shared_memory(count)
        self.serving = [Serving(index, front, limits) for index in range(count)]
        self.siblings: list[Siblings] = []
        self.acceptors: list[Acceptor] = []
        self.writers: list[asyncio.StreamWriter] = []
        for index in range(count):
            self.start(index)

    def start(self, index: int) -> None:
        inbox, inboxes = self.pairs[index][0].dup(), [each.dup() for _, each in self.pairs]
        self.siblings.insert(index, Siblings(index, inbox, inboxes, os.dup(self.memory)))

    def kill(self, index: int) -> None:
        """What is left of a process that has put nothing in order."""
        killed = self.siblings.pop(index)
        for each in (killed._inbox, *killed._inboxes):
            each.close()

    def begin(self, *indexes: int) -> None:
        for index in indexes or range(len(self.siblings)):
            self.siblings[index].begin(self.serving[index])

    async def listen(self, index: int) -> None:
        listener = Listener("node-7", "127.0.0.1", 0, (("broker", 9092), ("::1", 1)))
        self.acceptors.append(await Acceptor.open(listener, self.siblings[index]))

    async def connect(self, data: bytes = b"") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(*self.acceptors[-1].address)
        self.writers.append(writer)
        writer.write(data)
        return reader, writer

    def served(self) -> list[int]:
        return [len(each) for each in self.serving]

    async def settled(self, count: int) -> None:
        """Return once so many clients are served."""
        await until_so(lambda: sum(self.served()) == count)

    def read(self, index: int) -> list[bytes]:
        """What the clients of a worker have sent, none of which may be lost."""
        return [client.recv(100) for client, _, _ in self.serving[index].clients]

    def close(self) -> None:
        for acceptor in self.acceptors:
            acceptor.close()
        for siblings in self.siblings:
            siblings.close()
        for writer in self.writers:
            writer.transport.abort()
        for serving in self.serving:
            for client, _, _ in serving.clients:
                client.close()
        for pair in self.pairs:
            for each in pair:
                each.close()
        os.close(self.memory)


@asynccontextmanager
async def workers(
    count: int = 2, front: type[EchoFront] = EchoFront, limits: Limits = LIMITS
) -> AsyncIterator[Workers]:
    its = Workers(count, front, limits)
    try:
        yield its
    finally:
        its.close()


@on_uvloop
async def test_clients_go_where_the_fewest_are_and_arrive_as_if_accepted_there() -> None:
    async with workers(3) as its:
        its.begin()
        await its.listen(0)
        for count in range(1, 10):
            reader, writer = await its.connect(b"hello")
            await its.settled(count)
            name = f"127.0.0.1:{writer.get_extra_info('sockname')[1]}"
            everyone = [each for serving in its.serving for each in serving.clients]
            client, _, listener = next(each for each in everyone if each[1] == name)
            assert listener == Listener("node-7", "127.0.0.1", 0, (("broker", 9092), ("::1", 1)))
            assert not client.getblocking()
            assert client.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert its.served() == [3, 3, 3]
        client.send(b"answer")
        assert await reader.read(6) == b"answer"


@on_uvloop
async def test_a_worker_that_gives_no_sign_is_passed_over() -> None:
    async with workers(2) as its:
        its.begin(0)
        await its.listen(0)
        for count in range(1, 4):
            await its.connect()
            await its.settled(count)
            assert its.served() == [count, 0]


@on_uvloop
async def test_what_has_a_key_in_common_is_together_whoever_accepts_it() -> None:
    async with workers(3, ByLetter) as its:
        its.begin()
        for index in range(3):
            await its.listen(index)
            letters = [bytes([letter]) for letter in b"abcdefghijkl"]
            for letter in letters:
                await its.connect(b"xyz" + letter + b" and more")
            await its.settled(12 * (index + 1))
        found = [its.read(index) for index in range(3)]
        assert all(found), "12 letters, and none of them for one worker"
        for letter in letters:
            assert [each.count(b"xyz" + letter + b" and more") for each in found].count(3) == 1


@on_uvloop
async def test_first_bytes_may_come_one_by_one() -> None:
    async with workers(2, ByLetter) as its:
        its.begin()
        await its.listen(0)
        _, writer = await its.connect()
        for byte in (b"x", b"y", b"z"):
            writer.write(byte)
            await asyncio.sleep(0.02)
            assert its.served() == [0, 0]
        writer.write(b"a")
        await until_so(lambda: sum(its.served()) == 1)
        assert its.read(0) + its.read(1) == [b"xyza"]


@on_uvloop
async def test_who_sends_too_little_is_closed() -> None:
    async with workers(2, ByLetter, replace(LIMITS, handshake_s=0.05)) as its:
        its.begin()
        await its.listen(0)
        silent, _ = await its.connect()
        slow, _ = await its.connect(b"xyz")
        for reader in (silent, slow):
            with suppress(ConnectionError):
                assert await reader.read() == b""
        assert its.serving[0].counts == {"login_timed_out": 2}
        _, gone = await its.connect(b"")
        gone.transport.abort()
        await asyncio.sleep(0)
        await its.connect(b"xyza")
        await until_so(lambda: sum(its.served()) == 1)


@on_uvloop
async def test_clients_wait_for_a_worker_that_is_started_again() -> None:
    async with workers(2, ByLetter) as its:
        its.begin(0)
        await its.listen(0)
        for letter in b"abcdefgh":
            await its.connect(b"xyz" + bytes([letter]))
        counts = SharedCounts(its.memory, 0, 2)
        await until_so(lambda: len(its.serving[0]) + counts.waiting(1) == 8)
        counts.close()
        waiting = 8 - len(its.serving[0])
        assert waiting > 0
        its.kill(1)
        its.start(1)
        its.begin(1)
        await until_so(lambda: len(its.serving[1]) == waiting)


@on_uvloop
async def test_a_full_inbox_closes_what_is_for_that_worker_alone() -> None:
    async with workers(2, ByLetter) as its:
        its.begin(0)
        await its.listen(0)
        counts = SharedCounts(its.memory, 0, 2)
        counts.passes(1, 128)
        counts.close()
        readers = [(await its.connect(b"xyz" + bytes([letter])))[0] for letter in b"abcdefgh"]
        refused = its.serving[0].counts
        await until_so(lambda: len(its.serving[0]) + refused["connections_not_passed"] == 8)
        assert 0 < refused["connections_not_passed"] < 8
        await until_so(lambda: sum(map(_is_closed, readers)) == refused["connections_not_passed"])


@on_uvloop
async def test_a_worker_that_nobody_starts_again_leaves_its_clients_to_the_others() -> None:
    async with workers(2, ByLetter) as its:
        its.begin(0)
        await its.listen(0)
        its.pairs[1][0].close()
        its.kill(1)
        for letter in b"abcdefgh":
            await its.connect(b"xyz" + bytes([letter]))
        await until_so(lambda: its.served() == [8, 0])


@on_uvloop
async def test_the_worker_that_serves_refuses() -> None:
    async with workers(2, limits=replace(LIMITS, connections_of_all=3)) as its:
        its.begin()
        await its.listen(0)
        for count in range(1, 4):
            await its.connect()
            await its.settled(count)
        await its.connect()
        await until_so(lambda: sum(each.counts["connections_refused"] for each in its.serving) == 1)
        its.serving[1].clients.pop()[0].close()
        its.serving[1].refuses = ConnectionEvent.REFUSED_OVERLOAD
        await its.connect()
        await until_so(lambda: its.serving[1].counts["connections_refused_overload"] == 1)


@on_uvloop
async def test_a_front_that_raises_costs_no_client() -> None:
    async with workers(2, Broken) as its:
        its.begin()
        await its.listen(0)
        await its.connect()
        await until_so(lambda: sum(its.served()) == 1)
        assert its.serving[0].counts == {"session_faults": 1}


@on_uvloop
async def test_what_is_no_client_in_an_inbox_changes_nothing() -> None:
    async with workers(2) as its:
        its.begin()
        await its.listen(0)
        its.pairs[1][1].send(b"no message")
        await its.connect()
        await its.connect()
        await until_so(lambda: its.served() == [1, 1])


@on_uvloop
async def test_a_worker_that_closes_closes_who_waits_for_it() -> None:
    async with workers(2, ByLetter) as its:
        its.begin(0)
        await its.listen(0)
        readers = [(await its.connect(b"xyz" + bytes([letter])))[0] for letter in b"abcdefgh"]
        counts = SharedCounts(its.memory, 0, 2)
        await until_so(lambda: len(its.serving[0]) + counts.waiting(1) == 8)
        waiting = counts.waiting(1)
        counts.close()
        its.siblings.pop(1).close()
        await until_so(lambda: sum(map(_is_closed, readers)) == waiting)


def _is_closed(reader: asyncio.StreamReader) -> bool:
    return reader.at_eof() or reader.exception() is not None


_WORKER = """
import asyncio, socket, sys
import uvloop
from tests.net.listening.test_sharing import LIMITS, EchoFront, Serving
from sluicegate.net.listening.sharing import Siblings

async def main(index, inbox, counts, *inboxes):
    ends = [socket.socket(fileno=each) for each in inboxes]
    siblings = Siblings(index, socket.socket(fileno=inbox), ends, counts)
    serving = Serving(index, EchoFront, LIMITS)
    siblings.begin(serving)
    print("ready", flush=True)
    while not serving.clients:
        await asyncio.sleep(0.01)
    serving.clients[0][0].send(b"from another process")
    await asyncio.to_thread(sys.stdin.readline)
    siblings.close()
    serving.clients[0][0].close()

uvloop.run(main(*map(int, sys.argv[1:])))
"""


@on_uvloop
async def test_a_client_is_served_by_another_process() -> None:
    async with workers(2) as its:
        its.begin(0)
        await its.listen(0)
        passed = [its.pairs[1][0].fileno(), its.memory, *(end.fileno() for _, end in its.pairs)]
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-c", _WORKER, "1", *map(str, passed)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            pass_fds=passed,
            env=os.environ | {"PYTHONPATH": module_path()},
        )
        assert process.stdout is not None
        assert await process.stdout.readline() == b"ready\n"
        await its.connect()
        await until_so(lambda: its.served()[0] == 1)
        reader, _ = await its.connect()
        assert await reader.read(100) == b"from another process"
        await process.communicate(b"\n")
        assert process.returncode == 0


@pytest.mark.parametrize("count", [1, 64])
def test_numbers_begin_at_nothing(count: int) -> None:
    memory = shared_memory(count)
    counts = SharedCounts(memory, count - 1, count)
    try:
        assert [counts.load(each) for each in range(count)] == [0] * count
        assert not any(counts.is_alive(each) for each in range(count))
        counts.passes(0, 2)
        counts.beat(3)
        assert (counts.waiting(0), counts.load(count - 1)) == (2, 3 + 2 * (count == 1))
    finally:
        counts.close()
        os.close(memory)
