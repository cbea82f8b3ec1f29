"""Splicing requests: the kernel moves bytes from the client to the broker."""

import asyncio
import os

import pytest
from tests.gateway.lab import Lab, lab, on_uvloop, upstream
from tests.waiting import LONG_S

from sluicegate.net.relaying.splicing import Pipes

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
                writer.write(frame(payload))
                await writer.drain()
                await it.until(lambda: broker.got.endswith(b"<end>"))
                assert bytes(broker.got) == frame(payload) + b"<end>"
                broker.got.clear()
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
        await it.until(lambda: len(broker.got) == 2 * MIB)
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
