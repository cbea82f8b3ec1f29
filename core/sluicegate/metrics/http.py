"""The administrative HTTP endpoint: /metrics, /livez, /readyz. It runs in the supervisor."""

import asyncio
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import uvicorn
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from sluicegate.metrics.exposition import GatewayCollector, Snapshot, Status


class Observed(Protocol):
    """What is looked at; the supervisor is one."""

    def snapshots(self) -> Sequence[Snapshot]:
        """The last snapshot of each worker."""

    def status(self) -> Status:
        """The supervisor's own counters."""

    def not_ready(self) -> Sequence[str]:
        """Why clients are not all served; empty if they are."""


def make_app(observed: Observed) -> Starlette:
    """Make the application."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(GatewayCollector(observed.snapshots, observed.status))

    async def metrics(request: Request) -> Response:
        # Thousands of topics take some milliseconds; the supervisor answers health checks meanwhile.
        text = await asyncio.to_thread(generate_latest, registry)
        return Response(text, headers={"content-type": CONTENT_TYPE_LATEST})

    async def livez(request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def readyz(request: Request) -> Response:
        reasons = observed.not_ready()
        text = "".join(f"{reason}\n" for reason in reasons) or "ok\n"
        return PlainTextResponse(text, status_code=503 if reasons else 200)

    return Starlette(routes=[Route("/metrics", metrics), Route("/livez", livez), Route("/readyz", readyz)])


class _Server(uvicorn.Server):
    """uvicorn without its own signal handlers: the supervisor's drain comes first."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone."""
        yield


class AdminServer:
    """Serves the endpoint on the running event loop.

    :param observed: what it tells about.
    :param host: address to listen on.
    :param port: port; 0 takes a free one.
    :raises OSError: if the address cannot be had.
    """

    def __init__(self, observed: Observed, host: str, port: int) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            self._socket = socket.create_server((host, port), family=family)
        except OSError as error:
            text = f"cannot listen on {host}:{port} (admin): {error.strerror}"
            raise OSError(error.errno, text) from error
        config = uvicorn.Config(
            make_app(observed),
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            http="h11",
            timeout_graceful_shutdown=1,
        )
        self._server = _Server(config)
        self._serving: asyncio.Task[Any] | None = None

    @property
    def address(self) -> tuple[str, int]:
        """Host and port that are listened on."""
        host, port, *_ = self._socket.getsockname()
        return host, port

    def start(self) -> None:
        """Begin to serve."""
        serve = self._server.serve(sockets=[self._socket])
        self._serving = asyncio.get_running_loop().create_task(serve)

    async def stop(self) -> None:
        """Stop serving."""
        self._server.should_exit = True
        if self._serving is not None:
            await self._serving
        self._socket.close()
