"""A broker's slow disk: whatever reaches the broker waits in one queue, which has a bounded speed."""

import asyncio
from asyncio import StreamReader, StreamWriter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Self

Rewrite = Callable[[bytes], bytes]
"""Changes what the broker answers on one connection; it is called with the bytes in order."""

_READ = 1 << 16


class SlowDisk:
    """The queue of one broker, for all its connections: first come, first served.

    The embedded brokers keep messages in memory, and take far more than one client sends. So this gives them
    the bound that a real broker has. Bytes that come wait until all before them are written at
    `bytes_per_second`; the answers are not held. An asynchronous context manager.
    """

    def __init__(self) -> None:
        self.bytes_per_second = float("inf")
        """How fast it writes; unlimited at first."""
        self._free_at = 0.0
        self._servers: list[asyncio.Server] = []

    async def __aenter__(self) -> Self:
        """Listen, in front of the broker."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Take no more connections; those that there are go on."""
        for server in self._servers:
            server.close()

    def written_at(self, size: int, now: float) -> float:
        """Queue some bytes.

        :param now: s, by a monotonic clock.
        :return: when they are written, by the same clock.
        """
        self._free_at = max(self._free_at, now) + size / self.bytes_per_second
        return self._free_at

    async def front(self, address: str, rewriting: Callable[[int], Rewrite] | None = None) -> str:
        """Listen for the clients of a broker.

        :param address: the broker's, host:port.
        :param rewriting: called for each connection, with the port that this listens on.
        :return: where it listens, host:port.
        :raises OSError: if no port is available.
        """
        host, _, port = address.rpartition(":")

        async def accepted(reader: StreamReader, writer: StreamWriter) -> None:
            rewrite = rewriting(writer.get_extra_info("sockname")[1]) if rewriting is not None else None
            await self._carry(reader, writer, (host, int(port)), rewrite)

        server = await asyncio.start_server(accepted, "127.0.0.1", 0)
        self._servers.append(server)
        return f"127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def _carry(
        self, client: StreamReader, answers: StreamWriter, broker: tuple[str, int], rewrite: Rewrite | None
    ) -> None:
        with suppress(OSError):
            reader, writer = await asyncio.open_connection(*broker)
            answering = asyncio.ensure_future(_answer(reader, answers, rewrite))
            loop = asyncio.get_running_loop()
            try:
                while data := await client.read(_READ):
                    at = self.written_at(len(data), loop.time())
                    loop.call_at(at, partial(writer.write, data))
            finally:
                # The broker may still answer what was sent before the client's end.
                loop.call_at(max(self._free_at, loop.time()), _end, writer)
                await answering
                writer.close()
        answers.close()


def _end(writer: StreamWriter) -> None:
    if not writer.is_closing():
        writer.write_eof()


async def _answer(reader: StreamReader, writer: StreamWriter, rewrite: Rewrite | None) -> None:
    with suppress(OSError):
        while data := await reader.read(_READ):
            writer.write(data if rewrite is None else rewrite(data))
            await writer.drain()
    writer.close()
