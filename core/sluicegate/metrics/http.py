"""The administrative HTTP endpoint: /metrics, /livez, /readyz. It runs in the supervisor."""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from sluicegate.gateway.http import HttpServer
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


class AdminServer(HttpServer):
    """Serves the endpoint on the running event loop.

    :param observed: what it tells about.
    :param host: address to listen on.
    :param port: port; 0 takes a free one.
    :raises OSError: if the address cannot be had.
    """

    def __init__(self, observed: Observed, host: str, port: int) -> None:
        super().__init__(make_app(observed), host, port, "admin")
