"""TLS contexts whose files are read again when they change.

OpenSSL takes a connection's certificate and authorities from the context that it begins with, and keeps them.
So a new context for new connections leaves those that are open alone. A context that is only added to would
trust withdrawn authorities for good, and resume sessions that they vouched for; hence a whole new one.
"""

import os
import socket
import ssl
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, Self, TypeAlias

from sluicegate.config.tls import (
    Expiry,
    TlsFileError,
    TlsSection,
    context_for_broker,
    context_for_clients,
    expiries,
    files,
)
from sluicegate.config.tls_models import ClientTls

_Mark: TypeAlias = tuple[int, int, int, int] | None
"""What changes with a file: times of content and inode, size, inode; None if there is none."""

_Name: TypeAlias = str | bytes | None


class _Delegating(ssl.SSLContext):
    """A context that has another one make its connections.

    By itself it trusts no authority and shows no certificate: a connection made in any other way fails.
    """

    def __new__(cls, *_: Any) -> Self:
        """Make it; what else it takes is for its initializer."""
        return super().__new__(cls, ssl.PROTOCOL_TLS_CLIENT)

    def _target(self) -> ssl.SSLContext:
        raise NotImplementedError

    def _name(self, asked: _Name) -> _Name:
        return asked

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        """Begin a connection, as asyncio, uvloop and anyio do it."""
        name = self._name(server_hostname)
        return self._target().wrap_bio(incoming, outgoing, server_side, name, session)

    def wrap_socket(
        self,
        sock: socket.socket,
        server_side: bool = False,
        do_handshake_on_connect: bool = True,
        suppress_ragged_eofs: bool = True,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLSocket:
        """Begin a connection over a blocking socket."""
        name = self._name(server_hostname)
        return self._target().wrap_socket(
            sock, server_side, do_handshake_on_connect, suppress_ragged_eofs, name, session
        )


class RenewableContext(_Delegating):
    """A context whose new connections use its files as they were last read.

    It can be kept for good. Connections that are open stay as they began.

    :param make: reads the files.
    :raises OSError: if they cannot be used.
    """

    def __init__(self, make: Callable[[], ssl.SSLContext]) -> None:
        self._make = make
        self._alpn: list[str] = []
        """What a client library has asked for."""
        self._current = self._made()
        self.renewals = 0
        """How often the files were read again with success."""

    def renew(self) -> None:
        """Read the files again; for any thread.

        :raises OSError: if they cannot be used; new connections then use what they used before.
        """
        self._current = self._made()
        self.renewals += 1

    def set_alpn_protocols(self, alpn_protocols: Iterable[str]) -> None:
        """Agree on a protocol by name, also after the next renewal."""
        self._alpn = list(alpn_protocols)
        self._current.set_alpn_protocols(self._alpn)

    def asking_for(self, server_name: str | None) -> ssl.SSLContext:
        """The same for client libraries that cannot tell the server's name from the host connected to.

        :param server_name: name to ask for and to verify; None for the host.
        """
        return self if server_name is None else _Named(self, server_name)

    def _target(self) -> ssl.SSLContext:
        return self._current

    def _made(self) -> ssl.SSLContext:
        context = self._make()
        if self._alpn:
            context.set_alpn_protocols(self._alpn)
        return context


class _Named(_Delegating):
    """A context that asks for one server name, whatever host it connects to."""

    def __init__(self, context: ssl.SSLContext, server_name: str) -> None:
        self._context = context
        self._server_name = server_name

    def _target(self) -> ssl.SSLContext:
        return self._context

    def _name(self, asked: _Name) -> _Name:
        return self._server_name


class Look(Enum):
    """What came of a look at the files."""

    NOTHING = "nothing"
    RENEWED = "renewed"
    BROKEN = "broken"
    """They still cannot be used: to be told once."""


class Renewal:
    """The context of one `tls:` section, and the files that it is made from. Its methods block.

    :param section: names the files.
    :param alpn: protocols to agree on by name.
    :raises OSError: if a file cannot be used, mostly a `TlsFileError`.
    """

    def __init__(self, section: TlsSection, alpn: Iterable[str] = ()) -> None:
        self.section = section
        self.problem: OSError | None = None
        """Why the files that are there now cannot be used; None if they can."""
        self.expiries: list[Expiry] = []
        """Of the certificates in use."""
        self._marks = self._marks_now()
        self._is_told = False

        protocols = tuple(alpn)

        def make() -> ssl.SSLContext:
            if isinstance(section, ClientTls):
                return context_for_clients(section, protocols)
            return context_for_broker(section, protocols)

        self.context = RenewableContext(make)
        self._read_dates()

    def look(self, force: bool = False) -> Look:
        """Look whether the files changed, and read them again if they did.

        Certificate and key are two files, so that a renewal in between looks like a pair that does not fit.
        Such a failure counts from the second look at the same files on.

        :param force: read them even if they look the same, and let a failure count at once.
        """
        # First the marks: a change while the files are read is found by the next look.
        marks = self._marks_now()
        if marks == self._marks and not force:
            return self._tell() if self.problem is not None else Look.NOTHING
        self._marks = marks
        try:
            self.context.renew()
            self._read_dates()
        except OSError as error:
            self.problem, self._is_told = error, False
            return self._tell() if force else Look.NOTHING
        self.problem = None
        return Look.RENEWED

    def _tell(self) -> Look:
        if self._is_told:
            return Look.NOTHING
        self._is_told = True
        return Look.BROKEN

    def _read_dates(self) -> None:
        try:
            self.expiries = expiries(self.section)
        except TlsFileError:
            self._marks = {}  # gone since: the next look tells

    def _marks_now(self) -> dict[str, _Mark]:
        return {path: _mark(path) for path in files(self.section)}


def _mark(path: str) -> _Mark:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino
