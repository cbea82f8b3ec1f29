"""Servers that answer as a test says, and the gateway's side of the admin API."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from sluicegate_pulsar.cluster.admin import AdminApi
from sluicegate_pulsar.cluster.brokers import Brokers
from sluicegate_pulsar.config import PulsarConfig

Answer = Callable[[str], bytes]


def json(content: bytes, status: str = "200 OK", headers: str = "") -> bytes:
    return f"HTTP/1.1 {status}\r\n{headers}Content-Length: {len(content)}\r\n\r\n".encode() + content


def moved(url: str) -> bytes:
    return json(b"", "307 Temporary Redirect", f"Location: {url}\r\n")


def api_at(url: str, token: str | None = None, **entry: Any) -> tuple[AdminApi, Brokers]:
    """An API, and the brokers that it knows of."""
    config = PulsarConfig.model_validate(
        {
            "name": "main",
            "system": "pulsar",
            "bootstrap": ["b1:6650"],
            "listen": {"port": 16650},
            "admin": {"url": url, "token": token},
            **entry,
        }
    )
    assert config.admin is not None
    brokers = Brokers(config, {})
    return AdminApi(config.admin, None, brokers), brokers


@asynccontextmanager
async def serving(answer: Answer) -> AsyncIterator[tuple[int, list[str]]]:
    """A server that answers each request as it is told: its port, and the requests."""
    requests: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = (await reader.readuntil(b"\r\n\r\n")).decode()
        requests.append(request)
        writer.write(answer(request))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], requests
