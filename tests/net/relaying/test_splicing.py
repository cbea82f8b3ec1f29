"""Splicing: the kernel moves bytes from the broker to the client."""

import asyncio
import os
from collections.abc import Awaitable, Callable

import pytest
from tests.gateway.lab import Lab, lab, on_uvloop, upstream
from tests.waiting import LONG_S

from sluicegate.net.relaying.splicing import MAX_PIPES, Pipes

MIB = 1024 * 1024
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def bulk(payload: bytes, *, short: int = 0) -> Serve:
    """A broker that answers anything with a payload behind its size, and ends early by `short` bytes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(100):
            sent = len(payload).to_bytes(8, "big") + payload
            writer.write(sent[: len(sent) - short])
            await writer.drain()
            if short:
                break
        writer.close()

    return serve


async def answer(reader: asyncio.StreamReader, size: int) -> bytes:
    async with asyncio.timeout(LONG_S):
        return await reader.readexactly(size)


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


async def until_rested(it: Lab) -> None:
    await it.until(lambda: len(it.connections) == 0)
    it.connections.pipes.close()


@on_uvloop
async def test_a_long_answer_is_spliced_and_the_next_one_follows() -> None:
    payload = os.urandom(8 * MIB)
    async with upstream(bulk(payload)) as port, lab(port, name="bulk") as it:
        reader, writer = await it.connect()
        for _ in range(3):
            writer.write(b"fetch")
            assert (await answer(reader, 8 + len(payload)))[8:] == payload
            assert await answer(reader, 5) == b"<end>"  # what the session has to say comes behind
        session = it.front.bulk[0]
        assert session.moved > session.seen
        assert it.connections.bytes_from_brokers == 3 * (len(payload) + 8)
        writer.close()
        await until_rested(it)


@on_uvloop
async def test_a_client_that_reads_slowly_gets_every_byte() -> None:
    payload = os.urandom(4 * MIB)
    async with upstream(bulk(payload)) as port, lab(port, name="bulk") as it:
        reader, writer = await it.connect(limit=4096)
        writer.write(b"fetch")
        got = b""
        while len(got) < 8 + len(payload):
            got += await reader.read(50_000)
            await asyncio.sleep(0.001)
        assert got[8 : 8 + len(payload)] == payload
        assert it.front.bulk[0].moved > 0
        writer.close()
        await until_rested(it)


@pytest.mark.parametrize("end", ["client leaves", "broker dies", "gate aborts"])
def test_a_connection_that_ends_mid_splice_leaves_no_pipe_open(end: str) -> None:
    @on_uvloop
    async def play() -> None:
        short = MIB if end == "broker dies" else 0
        async with upstream(bulk(bytes(16 * MIB), short=short)) as port, lab(port, name="bulk") as it:
            before = open_descriptors()
            reader, writer = await it.connect()
            writer.write(b"fetch")
            await answer(reader, 2 * MIB)
            if end == "client leaves":
                writer.transport.abort()
            elif end == "gate aborts":
                await it.connections.abort()
            else:
                async with asyncio.timeout(LONG_S):
                    assert len(await reader.read(-1)) == 13 * MIB + 8
                writer.close()
            await until_rested(it)
            writer.transport.abort()
            await it.until(lambda: open_descriptors() <= before)

    play()


@on_uvloop
async def test_without_pipes_bytes_are_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pipes, "take", lambda self: None)
    payload = os.urandom(2 * MIB)
    async with upstream(bulk(payload)) as port, lab(port, name="bulk") as it:
        reader, writer = await it.connect()
        writer.write(b"fetch")
        assert (await answer(reader, 8 + len(payload)))[8:] == payload
        assert it.front.bulk[0].moved == 0
        writer.close()


def test_pipes_are_bounded_and_reused() -> None:
    pipes = Pipes()
    taken = []
    while (pipe := pipes.take()) is not None:
        taken.append(pipe)
    assert len(taken) == MAX_PIPES
    for pipe in taken:
        pipes.give(pipe, is_empty=pipe is not taken[0])
    again = pipes.take()
    assert again in taken[1:]
    assert again is not None
    pipes.give(again, is_empty=True)
    pipes.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(taken[1][0])
