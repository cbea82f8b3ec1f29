"""HTTP servers on the running event loop; they run in the supervisor."""

import asyncio
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

import uvicorn

from sluicegate.net.http_handshakes import TlsServer
from sluicegate.net.http_heads import HEAD_S, TAKEN_S, Waiting
from sluicegate.net.http_peers import PeerProtocol
from sluicegate.net.listening.sockets import Inherited, bind, refused_address

_KEEP_ALIVE_S = 30
_CONNECTIONS = 1_000


class _Server(uvicorn.Server):
    """uvicorn with bounded handshakes and without signal handlers: the supervisor's drain comes first.

    :param waiting: the connections that wait for their clients.
    :param handshake_s: longest time for a TLS handshake.
    """

    def __init__(self, config: uvicorn.Config, waiting: Waiting, handshake_s: float) -> None:
        super().__init__(config)
        self._waiting = waiting
        self._handshake_s = handshake_s
        self._ending = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen; TLS clients are accepted here, as uvicorn bounds no handshakes."""
        config = self.config
        if config.ssl is None or not sockets:
            await super().startup(sockets)
            return

        def make() -> asyncio.Protocol:
            protocol = cast("Callable[..., asyncio.Protocol]", config.http_protocol_class)
            return protocol(config=config, server_state=self.server_state, app_state={})

        servers = [TlsServer(bound, make, config.ssl, self._waiting, self._handshake_s) for bound in sockets]
        self.servers = cast("list[asyncio.Server]", servers)
        self.started = True

    async def main_loop(self) -> None:
        """Wait until serving ends; uvicorn's own loop polls ten times a second for a header that is off."""
        await self.on_tick(0)
        await self._ending.wait()

    def end(self) -> None:
        """Make `serve` return."""
        self.should_exit = True
        self._ending.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone."""
        yield


class HttpServer:
    """Serves one ASGI application.

    :param app: the application.
    :param host: address to listen on.
    :param port: port; 0 takes a free one.
    :param name: for errors.
    :param tls: what to speak; plain text if None.
    :param connections: most connections and requests at once; further ones get a 503. Half of them may wait
        for their clients, for a request or to take an answer; beyond that, each new one closes a waiting one.
    :param head_s: longest time for a TLS handshake, for the head of a request, and for the rest of one that
        is answered, seconds.
    :param taken_s: longest time for a client to take what was written to it, seconds.
    :param inherited: listening sockets of a process before; the one with this address is used.
    :raises OSError: if the address is not available.
    """

    def __init__(
        self,
        app: Any,
        host: str,
        port: int,
        name: str,
        tls: ssl.SSLContext | None = None,
        connections: int = _CONNECTIONS,
        head_s: float = HEAD_S,
        taken_s: float = TAKEN_S,
        inherited: Inherited | None = None,
    ) -> None:
        waiting = Waiting(connections // 2)
        protocol = partial(PeerProtocol, waiting=waiting, head_s=head_s, taken_s=taken_s)
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            http=cast("type[asyncio.Protocol]", protocol),
            server_header=False,
            date_header=False,
            proxy_headers=False,
            limit_concurrency=connections,
            timeout_keep_alive=_KEEP_ALIVE_S,
            timeout_graceful_shutdown=1,
        )
        config.load()
        config.ssl = tls  # its own options would read the files in a way of their own
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            self.bound = bind(name, host, port, family, inherited)
        except OSError as error:
            raise refused_address(name, host, port, error) from error
        self.name = name
        self._server = _Server(config, waiting, head_s)
        self._serving: asyncio.Task[Any] | None = None

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the listening socket."""
        host, port, *_ = self.bound.getsockname()
        return host, port

    def start(self) -> None:
        """Begin to serve."""
        serve = self._server.serve(sockets=[self.bound])
        self._serving = asyncio.get_running_loop().create_task(serve)

    async def stop(self) -> None:
        """Stop serving."""
        self._server.end()
        if self._serving is not None:
            await self._serving
        self.bound.close()
