"""TLS contexts that reload their files when these change.

A connection keeps the certificate and authorities of the context that it started with, so a new context
affects new connections only. Loading the new files into the old context would not do: it would go on
trusting withdrawn authorities and resume sessions that they had verified.
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
"""Identifies a file's state: mtime, ctime, size, inode; None if the file is missing."""

_Name: TypeAlias = str | bytes | None


class _Delegating(ssl.SSLContext):
    """A context that delegates new connections to another context.

    It trusts no authority and presents no certificate itself: connections made in any other way fail.
    """

    def __new__(cls, *_: Any) -> Self:
        """Create the context; `__init__` handles the arguments."""
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
        """Start a connection, as asyncio, uvloop and anyio do."""
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
        """Start a connection over a blocking socket."""
        name = self._name(server_hostname)
        return self._target().wrap_socket(
            sock, server_side, do_handshake_on_connect, suppress_ragged_eofs, name, session
        )


class RenewableContext(_Delegating):
    """A context whose new connections use the files as of the last `renew`.

    Existing connections are not affected.

    :param make: creates a context from the files.
    :raises OSError: if they cannot be used.
    """

    def __init__(self, make: Callable[[], ssl.SSLContext]) -> None:
        self._make = make
        self._alpn: list[str] = []
        """Protocols that a client library has requested."""
        self._current = self._made()
        self.renewals = 0
        """Number of successful reloads."""

    def renew(self) -> None:
        """Reload the files. Thread-safe.

        :raises OSError: if they cannot be used; new connections then continue with the previous context.
        """
        self._current = self._made()
        self.renewals += 1

    def set_alpn_protocols(self, alpn_protocols: Iterable[str]) -> None:
        """Set the ALPN protocols, for this context and those of later reloads."""
        self._alpn = list(alpn_protocols)
        self._current.set_alpn_protocols(self._alpn)

    def asking_for(self, server_name: str | None) -> ssl.SSLContext:
        """A context for client libraries that cannot set a server name other than the host.

        :param server_name: name to request (SNI) and to verify; None for the host.
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
    """A context that requests a fixed server name, whatever host it connects to."""

    def __init__(self, context: ssl.SSLContext, server_name: str) -> None:
        self._context = context
        self._server_name = server_name

    def _target(self) -> ssl.SSLContext:
        return self._context

    def _name(self, asked: _Name) -> _Name:
        return self._server_name


class Look(Enum):
    """The result of `Renewal.look`."""

    NOTHING = "nothing"
    RENEWED = "renewed"
    BROKEN = "broken"
    """The files cannot be used; returned once for each broken state."""


class Renewal:
    """Watches the files of one `tls:` section and reloads its context. Its methods block.

    :param section: refers to the files.
    :param alpn: protocols to negotiate (ALPN).
    :raises OSError: if a file cannot be used, mostly a `TlsFileError`.
    """

    def __init__(self, section: TlsSection, alpn: Iterable[str] = ()) -> None:
        self.section = section
        self.problem: OSError | None = None
        """Why the present files cannot be used; None if they can."""
        self.expiries: list[Expiry] = []
        """Of the certificates in use."""
        self._marks = self._marks_now()
        self._is_reported = False

        protocols = tuple(alpn)

        def make() -> ssl.SSLContext:
            if isinstance(section, ClientTls):
                return context_for_clients(section, protocols)
            return context_for_broker(section, protocols)

        self.context = RenewableContext(make)
        self._read_dates()

    def look(self, force: bool = False) -> Look:
        """Reload the files if they have changed.

        Certificate and key are two files, so a reload between the two writes sees a pair that does not match.
        A failure is therefore reported only by the second look at the same files.

        :param force: reload the files even if they look unchanged, and report a failure at once.
        """
        # The marks are taken first, so that the next look finds a change that happens during the reload.
        marks = self._marks_now()
        if marks == self._marks and not force:
            return self._report() if self.problem is not None else Look.NOTHING
        self._marks = marks
        try:
            self.context.renew()
            self._read_dates()
        except OSError as error:
            self.problem, self._is_reported = error, False
            return self._report() if force else Look.NOTHING
        self.problem = None
        return Look.RENEWED

    def _report(self) -> Look:
        if self._is_reported:
            return Look.NOTHING
        self._is_reported = True
        return Look.BROKEN

    def _read_dates(self) -> None:
        try:
            self.expiries = expiries(self.section)
        except TlsFileError:
            self._marks = {}  # deleted in the meantime: the next look reports it

    def _marks_now(self) -> dict[str, _Mark]:
        return {path: _mark(path) for path in files(self.section)}


def _mark(path: str) -> _Mark:
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino
