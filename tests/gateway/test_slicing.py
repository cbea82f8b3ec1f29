"""While a session works in slices, neither its client nor its broker is read from."""

import asyncio
from collections.abc import Sequence

import pytest
from tests.gateway.echo_plugin import RawSession
from tests.gateway.lab import lab, on_uvloop, upstream

from sluicegate.broker import PASS, Ask, Close, Command, NextTurn, ToClient, ToUpstream
from sluicegate.model import SessionClose
from sluicegate.net.relaying.relay import ClientSide

BULK = 32 * 1024 * 1024


class SlicingSession(RawSession):
    """Keeps what the broker sends first until its turn comes."""

    def __init__(self, peer: str) -> None:
        super().__init__(peer)
        self.kept: list[bytes] | None = []

    def receive_upstream(self, data: bytes, now_ns: int) -> Sequence[Command]:
        """Bytes from the broker."""
        if self.kept is None:
            return PASS
        self.kept.append(data)
        return [Ask(NextTurn())] if len(self.kept) == 1 else ()

    def answered(self, question: object, answer: object, now_ns: int) -> Sequence[Command]:
        """The turn has come."""
        kept, self.kept = self.kept or [], None
        return [ToClient(b"".join(kept))]


@on_uvloop
async def test_reading_from_the_broker_pauses_until_the_slice_is_done() -> None:
    async def bulk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(1)
        writer.write(bytes(BULK))
        await writer.drain()

    asked: list[tuple[ClientSide, NextTurn]] = []
    async with upstream(bulk) as port, lab(port) as it:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(it.front, "session", lambda listener, peer, now_ns: SlicingSession(peer))
            patch.setattr(it.connections, "ask", lambda *turn: asked.append(turn))
            reader, writer = await it.connect()
            writer.write(b"x")
            await it.until(lambda: asked)
            await it.settled(lambda: it.connections.bytes_from_brokers)
            assert it.connections.bytes_from_brokers < BULK // 8
            client, turn = asked[0]
            client.answered(turn, None)
            assert await reader.readexactly(BULK) == bytes(BULK)
            assert len(asked) == 1


class PublishingSession(SlicingSession):
    """Keeps what the client sends until its turn comes; ends with its client where that matters."""

    def receive_client(self, data: bytes, now_ns: int) -> Sequence[Command]:
        """Bytes from the client."""
        assert self.kept is not None
        self.kept.append(data)
        return [Ask(NextTurn())]

    def answered(self, question: object, answer: object, now_ns: int) -> Sequence[Command]:
        """The turn has come."""
        return [ToUpstream(b"".join(self.kept or []))]

    def wake(self, now_ns: int, client_gone: bool) -> Sequence[Command]:
        """The client has hung up while something of its own waited."""
        return [Close(SessionClose.CLIENT_GONE)] if client_gone else ()


@on_uvloop
async def test_bytes_sent_before_a_hang_up_survive_the_wait_for_a_turn() -> None:
    heard = bytearray()

    async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1024):
            heard.extend(data)

    asked: list[tuple[ClientSide, NextTurn]] = []
    async with upstream(hear) as port, lab(port) as it:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(it.front, "session", lambda listener, peer, now_ns: PublishingSession(peer))
            patch.setattr(it.connections, "ask", lambda *turn: asked.append(turn))
            _, writer = await it.connect()
            writer.write(b"fire and forget")
            await it.until(lambda: asked)
            writer.close()
            client, turn = asked[0]
            await it.until(client._is_client_gone)
            await it.sweep()
            client.answered(turn, None)
            await it.until(lambda: heard == b"fire and forget")
