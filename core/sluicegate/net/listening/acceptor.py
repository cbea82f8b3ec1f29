"""Listening sockets, which accept here and not in the event loop.

uvloop closes a listener for good when descriptors run out, or drops clients silently.
"""

import asyncio
import errno
import os
import socket
from contextlib import suppress
from typing import Protocol

from sluicegate.broker import Listener
from sluicegate.model import ConnectionEvent
from sluicegate.net.dialling import NO_DESCRIPTORS
from sluicegate.net.listening.held_listeners import Announcer
from sluicegate.net.listening.sockets import Inherited, bind, refused_address

_AT_ONCE = 8
"""Clients accepted in one turn of the loop; each takes some 0.3 ms until it is served."""
_TLS_AT_ONCE = 2
"""The same with TLS: the first bytes of reconnecting clients are there already, so the next turn signs for
each of them, 1 to 2 ms (RSA)."""
_REST_S = 0.1
"""Pause after descriptors were used up."""
_OUT_OF_MEMORY = frozenset({errno.ENOBUFS, errno.ENOMEM})

_PROBES = (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3))
"""The kernel probes a client that has been silent for 15 s, and closes it after three probes, 5 s apart."""


class Clients(Protocol):
    """Takes accepted clients; see `Connections`."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The running event loop."""

    @property
    def is_client_tls(self) -> bool:
        """Whether clients speak TLS."""

    def refusal(self, address: str, /) -> ConnectionEvent | None:
        """Why a client from this host may not connect; empty if it may."""

    def refused(self, peer: str, refusal: ConnectionEvent, /) -> None:
        """A client was refused."""

    def accept(self, client: socket.socket, peer: str, listener: Listener, /) -> None:
        """Serve a client that has connected."""

    def descriptors_used_up(self, error: OSError, /) -> None:
        """A client was refused for lack of descriptors."""


class Acceptor:
    """One listening socket.

    :param listener: its configuration; may be replaced by one with the same address.
    :param bound: the socket, bound and listening.
    :param connections: takes the clients.
    """

    def __init__(self, listener: Listener, bound: socket.socket, connections: Clients) -> None:
        self.listener = listener
        self.bound = bound
        host, port, *_ = bound.getsockname()
        self.address: tuple[str, int] = host, port
        """Host and port, with the actual port in place of 0; known after the socket is closed, too."""
        self._connections = connections
        self._loop = connections.loop
        self._spare = os.open(os.devnull, os.O_RDONLY)
        self._rest: asyncio.TimerHandle | None = None
        self.resume()

    @classmethod
    async def open(
        cls,
        listener: Listener,
        connections: Clients,
        inherited: Inherited | None = None,
        announcer: Announcer | None = None,
    ) -> "Acceptor":
        """Open a listening socket.

        :param inherited: sockets of a process before; the one with this address is used.
        :param announcer: asks for the socket that all workers of a broker share, if they do.
        :raises OSError: if the address is not available; the text names it.
        """
        try:
            infos = await connections.loop.getaddrinfo(
                listener.host, listener.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
            family, _, _, _, address = infos[0]
            name, host, port = listener.name, str(address[0]), int(address[1])
            bound = inherited.take(name, host, port) if inherited is not None else None
            if bound is None and announcer is not None and announcer.sharing:
                bound = await asyncio.to_thread(announcer.shared, name, host, port, family)
            bound = bound or bind(name, host, port, family)
        except OSError as error:
            raise refused_address(listener.name, listener.host, listener.port, error) from error
        bound.setblocking(False)
        return cls(listener, bound, connections)

    def pause(self) -> None:
        """Accept no clients until `resume`: they wait in the socket's queue."""
        self._loop.remove_reader(self.bound)

    def resume(self) -> None:
        """Accept clients again."""
        self._loop.add_reader(self.bound, self._ready)

    def close(self) -> None:
        """Stop listening; idempotent."""
        if self.bound.fileno() < 0:
            return
        if self._rest is not None:
            self._rest.cancel()
        self._loop.remove_reader(self.bound)
        self.bound.close()
        self._close_spare()

    def _close_spare(self) -> None:
        if self._spare >= 0:
            os.close(self._spare)
            self._spare = -1

    def _ready(self) -> None:
        for _ in range(_TLS_AT_ONCE if self._connections.is_client_tls else _AT_ONCE):
            try:
                client, address = self.bound.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno in NO_DESCRIPTORS | _OUT_OF_MEMORY:
                    self._close_waiting(error)
                    return
                continue  # the client was gone before it was accepted
            self._welcome(client, address[0], f"{address[0]}:{address[1]}")

    def _welcome(self, client: socket.socket, host: str, peer: str) -> None:
        connections = self._connections
        if refusal := connections.refusal(host):
            client.close()
            connections.refused(peer, refusal)
            return
        client.setblocking(False)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _probe_when_silent(client)
        connections.accept(client, peer, self.listener)

    def _close_waiting(self, error: OSError) -> None:
        """Use the spare descriptor to close waiting clients, so that they notice; then pause."""
        self._close_spare()
        for _ in range(_AT_ONCE):
            try:
                client, _ = self.bound.accept()
            except OSError:
                break
            client.close()
            self._connections.descriptors_used_up(error)
        with suppress(OSError):
            self._spare = os.open(os.devnull, os.O_RDONLY)
        self.pause()
        self._rest = self._loop.call_later(_REST_S, self._rested)

    def _rested(self) -> None:
        self._rest = None
        self.resume()


def _probe_when_silent(client: socket.socket) -> None:
    """Have the kernel close a client whose host has vanished, so that it frees its place."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _PROBES:
        if (option := getattr(socket, name, None)) is not None:  # not every system has all of them
            client.setsockopt(socket.IPPROTO_TCP, option, value)
