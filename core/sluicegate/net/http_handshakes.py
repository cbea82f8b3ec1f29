"""TLS handshakes of HTTP clients: how long one may take, and how many may be under way.

An HTTP server knows a client only once it speaks TLS, so that its bounds do not hold before.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress

from sluicegate.broker import Listener
from sluicegate.model import ConnectionEvent
from sluicegate.net.background import BackgroundTasks
from sluicegate.net.http_heads import Waiting
from sluicegate.net.listening.acceptor import Acceptor

log = logging.getLogger(__name__)


class TlsServer:
    """Serves TLS clients on the running event loop, in place of an `asyncio.Server`.

    :param bound: a listening socket.
    :param make: makes the protocol of a connection.
    :param tls: what to speak.
    :param waiting: unfinished handshakes count in it.
    :param handshake_s: longest time for one.
    """

    is_client_tls = True

    def __init__(
        self,
        bound: socket.socket,
        make: Callable[[], asyncio.Protocol],
        tls: ssl.SSLContext,
        waiting: Waiting,
        handshake_s: float,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self._make = make
        self._tls = tls
        self._waiting = waiting
        self._handshake_s = handshake_s
        self._tasks = BackgroundTasks("HTTP clients")
        bound.setblocking(False)
        self._acceptor = Acceptor(Listener("", "", 0, ()), bound, self)

    def close(self) -> None:
        """Accept no more clients."""
        self._acceptor.close()

    async def wait_closed(self) -> None:
        """End unfinished handshakes."""
        await self._tasks.cancel()

    # -- for the acceptor -----------------------------------------------------------------------------

    def refusal(self, address: str) -> None:
        """None is refused: each new client may close one that waits."""

    def refused(self, peer: str, refusal: ConnectionEvent) -> None:
        """Never called, as none is refused."""

    def descriptors_used_up(self, error: OSError) -> None:
        """Log that a client was refused for lack of descriptors."""
        log.error("file descriptors used up, turning HTTP clients away: %s", error.strerror)

    def accept(self, client: socket.socket, peer: str, listener: Listener) -> None:
        """Serve a client that has connected."""
        self._tasks.spawn(self._begin(client, _Handshake(client, peer)))

    async def _begin(self, client: socket.socket, handshake: "_Handshake") -> None:
        self._waiting.add(handshake)
        try:
            await self.loop.connect_accepted_socket(
                self._make, client, ssl=self._tls, ssl_handshake_timeout=self._handshake_s
            )
        except (OSError, asyncio.CancelledError):  # the task has nothing else to do
            client.close()
        finally:
            self._waiting.remove(handshake)


class _Handshake:
    """A client that does not speak TLS yet."""

    def __init__(self, client: socket.socket, peer: str) -> None:
        self.address = peer.rpartition(":")[0]
        self._client = client

    def close(self) -> None:
        """Make the handshake fail."""
        # Not closed: the event loop still watches the descriptor, and another client could get its number.
        with suppress(OSError):
            self._client.shutdown(socket.SHUT_RDWR)
