"""How long the gateway waits for clients: for first bytes, for a login, for the end of a frame."""

import asyncio
from time import monotonic_ns

import pytest
from tests.gateway.echo_plugin import RawSession
from tests.gateway.lab import lab, on_uvloop, upstream

_MINUTE_NS = 60_000_000_000


async def end(reader: asyncio.StreamReader) -> bytes:
    """All that still comes until the connection ends, however it ends."""
    try:
        return await reader.read()
    except ConnectionError:
        return b""


@on_uvloop
async def test_the_broker_is_dialled_with_the_clients_first_bytes() -> None:
    dialled = 0

    async def count(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal dialled
        dialled += 1
        writer.write(await reader.readline())
        await reader.read()

    async with upstream(count) as port, lab(port) as it:
        reader, writer = await it.connect()
        await it.served(1)
        await it.settled(lambda: dialled)
        assert dialled == 0
        writer.write(b"hello\n")
        assert await reader.readline() == b"hello\n"
        assert dialled == 1
        writer.close()


@on_uvloop
async def test_a_client_that_leaves_without_sending_is_forgotten() -> None:
    async with upstream() as port, lab(port) as it:
        reader, writer = await it.connect()
        await it.served(1)
        writer.write_eof()
        assert await end(reader) == b""
        await it.until(lambda: len(it.connections) == 0)


@on_uvloop
async def test_a_silent_client_is_closed_in_time() -> None:
    async with upstream() as port, lab(port, login_ns=_MINUTE_NS) as it:
        reader, writer = await it.connect()
        await it.served(1)
        await it.sweep(after_s=30)
        assert it.counts["login_timed_out"] == 0
        await it.sweep(after_s=61)
        assert await end(reader) == b""
        assert it.counts["login_timed_out"] == 1
        writer.close()


@pytest.mark.parametrize("is_logged_in", [False, True])
def test_a_client_that_does_not_finish_its_login_is_closed_in_time(
    monkeypatch: pytest.MonkeyPatch, is_logged_in: bool
) -> None:
    monkeypatch.setattr(RawSession, "is_logged_in", is_logged_in)

    @on_uvloop
    async def play() -> None:
        async with upstream() as port, lab(port, name="raw", login_ns=_MINUTE_NS) as it:
            reader, writer = await it.connect()
            writer.write(b"hello\n")
            assert await reader.readline() == b"hello\n"
            await it.sweep()
            await it.sweep(after_s=61)
            assert it.counts["login_timed_out"] == (not is_logged_in)
            if is_logged_in:  # a later login, such as KIP-368's, is not under this deadline
                monkeypatch.setattr(RawSession, "is_logged_in", False)
                await it.sweep(after_s=120)
                assert len(it.connections) == 1
            writer.close()

    play()


@on_uvloop
async def test_trickled_bytes_do_not_prolong_an_unread_frame() -> None:
    async with upstream() as port, lab(port, name="raw", frame_ns=_MINUTE_NS) as it:
        reader, writer = await it.connect()
        writer.write(b"x")
        assert await reader.read(1) == b"x"
        (client,) = it.connections._live
        assert isinstance(client.session, RawSession)
        client.session.frame_began_ns = monotonic_ns()
        for _ in range(3):
            writer.write(b"x")
            assert await reader.read(1) == b"x"
        await it.sweep(after_s=30)
        assert it.counts["frame_timed_out"] == 0
        await it.sweep(after_s=61)
        assert it.counts["frame_timed_out"] == 1
        writer.close()
