"""Splicing requests: the kernel moves bytes from the client to the broker."""

import asyncio
import os
import socket

import pytest
from tests.gateway.lab import Lab, lab, on_uvloop, upstream
from tests.waiting import LONG_S

from sluicegate.net.relaying import splicing
from sluicegate.net.relaying.splicing import Pipes

KIB = 1024
MIB = 1024 * 1024


class Stored:
    """A broker that keeps what it gets.

    :param piece: bytes of one read; the client is read slowly where they are few.
    """

    def __init__(self, piece: int = 65_536) -> None:
        self.piece = piece
        self.got = bytearray()
        self.has_ended = False
        self.writers: list[asyncio.StreamWriter] = []

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        try:
            while data := await reader.read(self.piece):
                self.got += data
                if self.piece < 65_536:
                    await asyncio.sleep(0.001)
        finally:
            self.has_ended = True
            writer.close()


def frame(payload: bytes) -> bytes:
    return len(payload).to_bytes(8, "big") + payload


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


async def upload(it: Lab, broker: Stored, writer: asyncio.StreamWriter, payload: bytes) -> None:
    """Have a request arrive, and nothing else."""
    broker.got.clear()
    writer.write(frame(payload))
    await writer.drain()
    await it.until(lambda: broker.got.endswith(b"<end>"))
    assert bytes(broker.got) == frame(payload) + b"<end>"


async def until_rested(it: Lab) -> None:
    await it.until(lambda: len(it.connections) == 0)
    it.connections.pipes.close()


@pytest.mark.parametrize("piece", [65_536, 20_000])
def test_long_requests_are_spliced_and_the_next_ones_follow_in_order(piece: int) -> None:
    @on_uvloop
    async def play() -> None:
        payload, broker = os.urandom(4 * MIB), Stored(piece)
        async with upstream(broker) as port, lab(port, name="upload") as it:
            _, writer = await it.connect()
            for _ in range(3):
                await upload(it, broker, writer, payload)
            session = it.front.uploads[0]
            assert session.moved > session.seen
            assert it.connections.bytes_from_clients == 3 * (len(payload) + 8)
            writer.close()
            await until_rested(it)

    play()


@pytest.mark.parametrize("end", ["client leaves", "client ends", "broker dies", "gate aborts"])
def test_a_connection_that_ends_mid_splice_leaves_no_pipe_open(end: str) -> None:
    @on_uvloop
    async def play() -> None:
        broker = Stored()
        async with upstream(broker) as port, lab(port, name="upload") as it:
            before = open_descriptors()
            reader, writer = await it.connect()
            writer.write(frame(bytes(16 * MIB))[: 8 * MIB])
            await writer.drain()
            await it.until(lambda: len(broker.got) > MIB and it.front.uploads[0].seen < 4 * MIB)
            if end == "client leaves":
                writer.transport.abort()
            elif end == "client ends":
                writer.write_eof()
                await it.until(lambda: broker.has_ended)
                assert len(broker.got) == 8 * MIB
                writer.close()
            elif end == "gate aborts":
                await it.connections.abort()
            else:
                broker.writers[0].transport.abort()
                async with asyncio.timeout(LONG_S):
                    assert await reader.read(-1) == b""
                writer.close()
            await it.until(lambda: broker.has_ended)
            await until_rested(it)
            assert b"<end>" not in broker.got
            writer.transport.abort()
            await it.until(lambda: open_descriptors() <= before)

    play()


@on_uvloop
async def test_a_client_that_stalls_in_a_spliced_request_is_late() -> None:
    broker = Stored()
    async with upstream(broker) as port, lab(port, name="upload", frame_ns=10**9) as it:
        reader, writer = await it.connect()
        writer.write(frame(bytes(8 * MIB))[: 2 * MIB])
        await it.until(lambda: len(broker.got) > MIB)
        it.front.uploads[0].frame_began_ns = 1
        await it.sweep(5)
        async with asyncio.timeout(LONG_S):
            assert await reader.read(-1) == b""
        assert it.counts["frame_timed_out"] == 1
        writer.close()


@on_uvloop
async def test_without_pipes_requests_are_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pipes, "take", lambda self: None)
    payload, broker = os.urandom(2 * MIB), Stored()
    async with upstream(broker) as port, lab(port, name="upload") as it:
        _, writer = await it.connect()
        writer.write(frame(payload))
        await it.until(lambda: bytes(broker.got) == frame(payload) + b"<end>")
        assert it.front.uploads[0].moved == 0
        writer.close()


@on_uvloop
async def test_of_the_requests_behind_a_large_one_only_the_heads_are_read() -> None:
    broker = Stored()
    async with upstream(broker) as port, lab(port, name="upload") as it:
        _, writer = await it.connect()
        await upload(it, broker, writer, os.urandom(2 * MIB))
        before, session = open_descriptors(), it.front.uploads[0]
        for size in (100 * KIB, 300 * KIB, 100, 64 * KIB):
            seen = session.seen
            await upload(it, broker, writer, os.urandom(size))
            assert session.seen - seen < 5 * KIB
            assert open_descriptors() == before
        writer.close()
        await until_rested(it)


@on_uvloop
async def test_small_requests_behind_a_large_one_are_read_as_usual() -> None:
    broker = Stored()
    async with upstream(broker) as port, lab(port, name="upload") as it:
        before = open_descriptors()
        _, writer = await it.connect()
        await upload(it, broker, writer, os.urandom(2 * MIB))
        assert len(it.connections.pipes.kept) == 1
        for size in (4 * KIB, 6 * KIB, 100, 20 * KIB, 100):
            await upload(it, broker, writer, os.urandom(size))
        assert not it.connections.pipes.kept
        await upload(it, broker, writer, os.urandom(2 * MIB))
        assert len(it.connections.pipes.kept) == 1
        writer.close()
        await until_rested(it)
        await it.until(lambda: open_descriptors() <= before)


@on_uvloop
async def test_a_splice_that_waits_gives_way_to_one_that_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splicing, "MAX_PIPES", 2)
    broker = Stored()
    async with upstream(broker) as port, lab(port, name="upload") as it:
        clients = [(await it.connect())[1] for _ in range(4)]
        for _ in range(3):
            for writer in clients:
                await upload(it, broker, writer, os.urandom(MIB))
                assert len(it.connections.pipes.kept) <= 2
        assert all(session.moved > session.seen for session in it.front.uploads)
        for writer in clients:
            writer.close()
        await until_rested(it)


@pytest.mark.parametrize("end", ["client leaves", "client ends", "broker ends", "gate drains"])
def test_a_connection_ends_between_large_requests(end: str) -> None:
    @on_uvloop
    async def play() -> None:
        broker = Stored()
        async with upstream(broker) as port, lab(port, name="upload") as it:
            before = open_descriptors()
            reader, writer = await it.connect()
            await upload(it, broker, writer, bytes(2 * MIB))
            if end == "client leaves":
                writer.transport.abort()
            elif end == "client ends":
                writer.write_eof()
            elif end == "broker ends":
                broker.writers[0].close()
            else:
                await it.connections.drain(LONG_S)
            await it.until(lambda: broker.has_ended)
            if end != "client leaves":
                async with asyncio.timeout(LONG_S):
                    assert await reader.read(-1) == b""
            writer.close()
            await until_rested(it)
            await it.until(lambda: open_descriptors() <= before)

    play()


@on_uvloop
async def test_a_client_that_stalls_in_a_head_behind_a_large_request_is_late() -> None:
    broker = Stored()
    async with upstream(broker) as port, lab(port, name="upload", frame_ns=10**9) as it:
        reader, writer = await it.connect()
        await upload(it, broker, writer, bytes(2 * MIB))
        await it.say(writer, frame(bytes(MIB))[:100])
        it.front.uploads[0].frame_began_ns = 1
        await it.sweep(5)
        async with asyncio.timeout(LONG_S):
            assert await reader.read(-1) == b""
        assert it.counts["frame_timed_out"] == 1
        writer.close()


@pytest.mark.parametrize("room", [64 * KIB, 128 * KIB])
def test_a_small_receive_buffer_stalls_no_splice(room: int) -> None:
    @on_uvloop
    async def play() -> None:
        broker = Stored()
        async with upstream(broker) as port, lab(port, name="upload") as it:
            _, writer = await it.connect()
            await upload(it, broker, writer, bytes(MIB))
            (client,) = it.connections._live
            assert client._transport is not None
            with client._transport.get_extra_info("socket").dup() as taken:
                taken.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
            for size in (MIB, 3 * MIB, 100, MIB + 7):
                await upload(it, broker, writer, os.urandom(size))
            writer.close()
            await until_rested(it)

    play()


@on_uvloop
async def test_behind_a_spliced_request_a_single_byte_is_read() -> None:
    broker = Stored()
    async with upstream(broker) as port, lab(port, name="upload") as it:
        _, writer = await it.connect()
        writer.write(frame(bytes(2 * MIB))[:MIB])
        await it.until(lambda: len(broker.got) >= 200 * KIB)
        writer.write(bytes(MIB + 8 - 300))
        await asyncio.sleep(0.01)
        for _ in range(3):
            writer.write(bytes(100))
            await asyncio.sleep(0.01)
        await it.until(lambda: broker.got.endswith(b"<end>"))
        for _ in range(4):  # more than are read as heads
            await it.say(writer, frame(bytes(5 * KIB))[:8])
            await it.say(writer, frame(bytes(5 * KIB))[8:])
            broker.got.clear()
        writer.close()
