"""Listening sockets: bound here, or taken over from the process that listened on the address before.

An inherited socket keeps its queue of clients, so none of them is refused while processes change.
"""

import errno
import os
import socket
from collections.abc import Iterable, Mapping

_BACKLOG = 1024
_FIRST_PASSED = 3
"""The first descriptor that systemd passes (sd_listen_fds)."""


class Inherited:
    """Listening sockets of a process before this one, until they are taken.

    :param sockets: each with the listener's name.
    """

    def __init__(self, sockets: Iterable[tuple[str, socket.socket]] = ()) -> None:
        self._sockets = list(sockets)

    def __len__(self) -> int:
        return len(self._sockets)

    def take(self, name: str, host: str, port: int) -> socket.socket | None:
        """The socket that is bound to an address.

        :param name: of the listener: with port 0, it gets its previous port.
        :param host: an address, not a host's name.
        """
        for index, (known, bound) in enumerate(self._sockets):
            its_host, its_port = bound.getsockname()[:2]
            if its_host == host and (its_port == port if port else known == name):
                del self._sockets[index]
                return bound
        return None

    def close(self) -> list[str]:
        """Close the sockets that were not taken, and return their names."""
        names = [name for name, _ in self._sockets]
        for _, unused in self._sockets:
            unused.close()
        self._sockets.clear()
        return names


def bind(
    name: str, host: str, port: int, family: socket.AddressFamily, inherited: Inherited | None = None
) -> socket.socket:
    """A socket that listens.

    :param name: of the listener.
    :param host: an address, not a host's name.
    :param inherited: where to look for it first.
    :raises OSError: if the address is not available.
    """
    inherited_socket = inherited.take(name, host, port) if inherited is not None else None
    return inherited_socket or socket.create_server((host, port), family=family, backlog=_BACKLOG)


_REMEDIES = {
    errno.EADDRINUSE: "end what listens there, or choose another port",
    errno.EADDRNOTAVAIL: "name an address of this machine, or 0.0.0.0 for all of them",
    errno.EACCES: "choose a port above 1023, or grant the capability CAP_NET_BIND_SERVICE",
    socket.EAI_NONAME: "correct the host's name, or write an address",
}


def refused_address(name: str, host: str, port: int, error: OSError) -> OSError:
    """The error for an address that cannot be listened on, with what to do about it.

    :param name: of the listener.
    :param error: what the system said.
    """
    code = error.errno or 0
    reason = os.strerror(code) if code > 0 else error.strerror  # its own words repeat the address
    remedy = f": {_REMEDIES[code]}" if code in _REMEDIES else ""
    return OSError(code, f"cannot listen on {host}:{port} ({name}): {reason}{remedy}")


def passed_by_systemd(environ: Mapping[str, str] = os.environ) -> list[socket.socket]:
    """The sockets of the units that activate this one (sd_listen_fds); their addresses tell them apart."""
    # Variables that were meant for a parent of this process, such as a shell, are none of its business.
    if environ.get("LISTEN_PID") != str(os.getpid()):
        return []
    count = int(environ.get("LISTEN_FDS", "0"))
    sockets = [socket.socket(fileno=number) for number in range(_FIRST_PASSED, _FIRST_PASSED + count)]
    for passed in sockets:
        # systemd passes them as inheritable: each worker would keep them open.
        passed.set_inheritable(False)
    return sockets
