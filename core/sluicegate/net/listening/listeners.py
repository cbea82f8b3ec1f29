"""The listeners that one worker has open."""

import logging
import socket
from collections.abc import Mapping
from contextlib import suppress

from sluicegate.broker import Listener
from sluicegate.net.listening.acceptor import Acceptor, Clients
from sluicegate.net.listening.held_listeners import Announcer
from sluicegate.net.listening.sockets import Inherited

log = logging.getLogger(__name__)


class Listeners:
    """Opens, moves and closes listeners by name.

    :param inherited: listening sockets of the process before this one; those not used are closed.
    :param announcer: reports which listeners are open.
    :param accepting: whether clients are accepted already; otherwise from `accept` on.
    """

    def __init__(
        self,
        inherited: Inherited | None = None,
        announcer: Announcer | None = None,
        *,
        accepting: bool = True,
    ) -> None:
        self._inherited = inherited or Inherited()
        self._announcer = announcer
        self._acceptors: dict[str, Acceptor] = {}
        self._opening: dict[str, Listener] = {}
        """Those that are being opened; one that was closed or moved meanwhile is not."""
        self._refused: dict[str, tuple[Listener, Clients]] = {}
        """Those whose address was not available."""
        self._is_accepting = accepting
        self._is_closed = False

    async def open(self, listener: Listener, connections: Clients) -> None:
        """Open a listener; one of the same name gets the new upstream, or moves to its new address.

        After `close` it opens none.

        :param connections: takes the clients.
        :raises OSError: if the address is not available; `retry` tries again.
        """
        known = self._acceptors.get(listener.name)
        if known is not None and (known.listener.host, known.listener.port) == (listener.host, listener.port):
            known.listener = listener
            return
        self.close_one(listener.name)
        self._opening[listener.name] = listener
        try:
            acceptor = await Acceptor.open(listener, connections, self._inherited, self._announcer)
        except OSError:
            if self._opening.get(listener.name) is listener:
                self._refused[listener.name] = listener, connections
            raise
        if self._is_closed or self._opening.get(listener.name) is not listener:
            acceptor.close()
            return
        del self._opening[listener.name]
        self._acceptors[listener.name] = acceptor
        if not self._is_accepting:
            acceptor.pause()
        if self._announcer is not None:
            self._announcer.opened(listener.name, acceptor.bound)
        host, port = acceptor.address
        log.info("listening on %s:%d", host, port, extra={"listener": listener.name})

    def accept(self) -> None:
        """Accept clients from now on; once at most, and not after `close`."""
        self._is_accepting = True
        for acceptor in self._acceptors.values():
            acceptor.resume()

    async def retry(self) -> None:
        """Open the listeners whose address was not available, as far as it is now."""
        for listener, connections in tuple(self._refused.values()):
            with suppress(OSError):  # logged when it was first tried
                await self.open(listener, connections)

    def close_one(self, name: str) -> None:
        """Close the listener of this name, if there is one; its clients stay connected."""
        self._refused.pop(name, None)
        self._opening.pop(name, None)
        acceptor = self._acceptors.pop(name, None)
        if acceptor is not None:
            acceptor.close()
            if self._announcer is not None:
                self._announcer.closed(name)

    def release_inherited(self) -> None:
        """Close the inherited sockets that no listener has taken."""
        for name in self._inherited.close():
            if self._announcer is not None and name not in self._acceptors:  # else it has moved
                self._announcer.closed(name)

    def address(self, name: str) -> tuple[str, int]:
        """Host and port that a listener is bound to.

        :raises KeyError: if there is no such listener.
        """
        return self._acceptors[name].address

    @property
    def addresses(self) -> Mapping[str, tuple[str, int]]:
        """Host and port of every listener, by name."""
        return {name: acceptor.address for name, acceptor in self._acceptors.items()}

    @property
    def sockets(self) -> Mapping[str, socket.socket]:
        """The socket of each listener, by name."""
        return {name: acceptor.bound for name, acceptor in self._acceptors.items()}

    def close(self) -> None:
        """Accept no more clients and open no more listeners; their addresses stay known."""
        self._is_closed = True
        self._inherited.close()
        for acceptor in self._acceptors.values():
            acceptor.close()

    def forget(self) -> None:
        """Close, and forget all addresses."""
        self.close()
        self._acceptors.clear()
