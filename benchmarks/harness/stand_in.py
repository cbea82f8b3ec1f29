"""A stand-in for a Kafka broker: answers at once, one request after the other, and keeps nothing.

As Kafka does, it answers one request of each connection in turn, however many a connection has sent.

Run as a program with the port to listen on. Fetch gets 50 MiB, Produce that all went well (or nothing, with
`acks=0`), everything else what ApiVersions 0 gets.
"""

import asyncio
import struct
import sys

import uvloop

from benchmarks.harness.kafka_produced import PRODUCE, VERSIONS, produced, wants_answer

_FETCH = 1
_FETCHED_BYTES = 50 * 1024 * 1024
_PIECE = bytes(256 * 1024)


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            (length,) = struct.unpack(">i", await reader.readexactly(4))
            request = await reader.readexactly(length)
            api_key, correlation_id = struct.unpack_from(">h2xi", request)
            if api_key == _FETCH:
                writer.write(struct.pack(">ii", 4 + _FETCHED_BYTES, correlation_id))
                for _ in range(_FETCHED_BYTES // len(_PIECE)):
                    writer.write(_PIECE)
                    await writer.drain()
            elif api_key != PRODUCE or wants_answer(request):
                body = produced(request) if api_key == PRODUCE else VERSIONS
                writer.write(struct.pack(">ii", 4 + len(body), correlation_id) + body)
                await writer.drain()
            # Where all is in the buffers no await above yields, and one client would keep the loop.
            await asyncio.sleep(0)
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def _main(port: int) -> None:
    server = await asyncio.start_server(_serve, "127.0.0.1", port, backlog=4096)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_main(int(sys.argv[1])))
