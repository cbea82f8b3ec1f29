"""Serves the admin API on the running event loop."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.applications import Starlette


class _Server(uvicorn.Server):
    """uvicorn without signal handlers: the program that runs the broker handles signals."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone."""
        yield


class WebServer:
    """One HTTP listener.

    :param app: the ASGI application.
    :param host: address to listen on.
    :param port: port; 0 for a free one.
    :raises OSError: if the address is not available.
    """

    def __init__(self, app: Starlette, host: str, port: int) -> None:
        self._socket = socket.create_server((host, port))
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            http="h11",
            timeout_graceful_shutdown=1,
        )
        self._server = _Server(config)
        self._serving: asyncio.Task[None] | None = None

    @property
    def port(self) -> int:
        """The port of the listener."""
        port: int = self._socket.getsockname()[1]
        return port

    def start(self) -> None:
        """Begin to serve."""
        serving = self._server.serve(sockets=[self._socket])
        self._serving = asyncio.get_running_loop().create_task(serving)

    async def stop(self) -> None:
        """Stop serving."""
        self._server.should_exit = True
        if self._serving is not None:
            await self._serving
        self._socket.close()
