"""The administrative HTTP endpoint: /metrics, /livez, /readyz, and what else is given to it.

It runs in the supervisor.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from sluicegate.metrics.exposition import GatewayCollector, Snapshot, Status
from sluicegate.metrics.exposition_text import text_of
from sluicegate.net.background import BackgroundTasks
from sluicegate.net.http import HttpServer
from sluicegate.net.http_hosts import HostCheck
from sluicegate.net.listening.sockets import Inherited
from sluicegate.net.tls import TlsFiles
from sluicegate.pacing.asked_once import AskedOnce


class Observed(Protocol):
    """The part of the supervisor that the endpoint reads."""

    def snapshots(self) -> Sequence[Snapshot]:
        """The last snapshot of each worker."""

    def status(self) -> Status:
        """The supervisor's own counters."""

    def not_ready(self) -> Sequence[str]:
        """Why the gateway does not accept all clients; empty if it does."""

    def brokers(self) -> Mapping[str, Mapping[str, Any]]:
        """Whether each broker can be reached, by name; values as from `Reachability.snapshot`."""


def _shown_to_all(request: Request) -> Response | None:
    return None


def make_app(
    observed: Observed,
    routes: Sequence[BaseRoute] = (),
    refusal: Callable[[Request], Response | None] = _shown_to_all,
) -> Starlette:
    """Make the application.

    :param routes: further paths.
    :param refusal: the answer to a request that may not see the metrics; None if it may.
    """
    collector = GatewayCollector(observed.snapshots, observed.status)
    text = b""
    asked = AskedOnce[None]()  # so that hundreds of clients at once cost one exposition, and not one each

    async def expose() -> None:
        nonlocal text
        # Thousands of topics take some milliseconds; the supervisor answers health checks meanwhile.
        text = await asyncio.to_thread(lambda: text_of(collector.collect()))

    async def metrics(request: Request) -> Response:
        if (refused := refusal(request)) is not None:
            return refused
        await asked.ask("metrics", expose)
        return Response(text, headers={"content-type": CONTENT_TYPE_LATEST})

    async def livez(request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def readyz(request: Request) -> Response:
        reasons, brokers = list(observed.not_ready()), observed.brokers()
        named = request.query_params.getlist("broker")
        if unknown := [name for name in named if name not in brokers]:
            return PlainTextResponse(f"no broker {unknown[0]!r}; there are {', '.join(brokers)}\n", 404)
        reasons += [f"broker {_state_of(name, brokers[name])}" for name in named if not brokers[name]["up"]]
        lines = reasons or ["ok"]
        if "verbose" in request.query_params:
            for name, state in brokers.items():
                notes = (f"broker {name!r}: {note}" for note in state.get("notes", ()))
                lines += (f"broker {_state_of(name, state)}", *notes)
        return PlainTextResponse("".join(f"{line}\n" for line in lines), 503 if reasons else 200)

    own = [Route("/metrics", metrics), Route("/livez", livez), Route("/readyz", readyz)]
    return Starlette(routes=[*own, *routes])


def _state_of(name: str, state: Mapping[str, Any]) -> str:
    """Whether one broker can be reached, since when, and why not."""
    since = ""
    if state["since_ms"] is not None:
        at = datetime.fromtimestamp(state["since_ms"] / 1000, UTC)
        since = f" since {at.isoformat(timespec='seconds')}"
    if state["up"]:
        return f"{name!r} is up{since}" + (f", except {state['reason']}" if state["reason"] else "")
    return f"{name!r} is not reachable{since}: {state['reason']}"


class AdminServer(HttpServer):
    """Serves the endpoint on the running event loop.

    :param observed: what it tells about.
    :param host: address to listen on.
    :param port: port; 0 takes a free one.
    :param inherited: listening sockets of a process before; the one with this address is used.
    :param allowed_hosts: names by which clients may ask, see `HostCheck`; `host` is always one.
    :param routes: further paths, such as those of the admin API.
    :param refusal: as of `make_app`.
    :param tls: what to speak, read again when its files change; plain HTTP if None.
    :raises OSError: if the address is not available, or a TLS file cannot be read.
    """

    def __init__(
        self,
        observed: Observed,
        host: str,
        port: int,
        inherited: Inherited | None = None,
        allowed_hosts: Sequence[str] = (),
        routes: Sequence[BaseRoute] = (),
        refusal: Callable[[Request], Response | None] = _shown_to_all,
        tls: TlsFiles | None = None,
    ) -> None:
        app = HostCheck(make_app(observed, routes, refusal), (host, *allowed_hosts), "admin.allowed_hosts")
        self._tls = tls
        spoken = tls.open().client if tls is not None else None
        super().__init__(app, host, port, "admin", spoken, inherited=inherited)
        self.url = self._url("http" if spoken is None else "https")
        self._tasks = BackgroundTasks("the admin endpoint")

    def start(self) -> None:
        """Begin to serve."""
        super().start()
        if self._tls is not None:
            self._tasks.spawn(self._tls.watch())

    def renew_tls(self) -> None:
        """Read the TLS files now, even if they look unchanged."""
        if self._tls is not None:
            self._tls.renew()

    async def stop(self) -> None:
        """Stop serving."""
        await self._tasks.cancel()
        await super().stop()

    def _url(self, scheme: str) -> str:
        host, port = self.address
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"
