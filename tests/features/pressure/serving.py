"""Real HTTP servers on the loopback: good, slow, down, garbled and endless."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

Answer = Callable[[str], bytes | None]
"""From the path to the bytes to send; None never answers."""


def ok(body: str | bytes, kind: str = "text/plain") -> bytes:
    content = body.encode() if isinstance(body, str) else body
    return b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s" % (
        kind.encode(),
        len(content),
        content,
    )


def failed(status: int, reason: str = "No") -> bytes:
    return f"HTTP/1.1 {status} {reason}\r\nContent-Length: 0\r\n\r\n".encode()


class Server:
    """Counts what it was asked."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.asked: list[str] = []
        self.headers: list[str] = []
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        path = head.split(" ", 2)[1]
        self.asked.append(path)
        self.headers.append(head)
        answer = self.answer(path)
        if answer is None:
            await reader.read()  # until the client gives up
        else:
            writer.write(answer)
        writer.close()


@asynccontextmanager
async def server(answer: Answer) -> AsyncIterator[Server]:
    found = Server(answer)
    listening = await asyncio.start_server(found.serve, "127.0.0.1", 0)
    host, port = listening.sockets[0].getsockname()
    found.url = f"http://{host}:{port}"
    try:
        yield found
    finally:
        listening.close()
        await listening.wait_closed()
