"""A front that makes no session ends its client, and no other."""

import asyncio

import pytest
from tests.gateway.lab import lab, on_uvloop, upstream


@on_uvloop
async def test_a_client_for_which_the_front_makes_no_session_is_closed() -> None:
    async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with upstream(hear) as port, lab(port) as it:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(it.front, "session", lambda *_: object())
            reader, writer = await it.connect()
            writer.write(b"x\n")
            assert await reader.read() == b""
            assert it.counts["session_faults"] == 1
        writer.close()
