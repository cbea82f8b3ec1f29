"""TLS handshakes in memory: what each side saw of the other."""

import ssl
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from cryptography import x509


class Seen(NamedTuple):
    """What came of a handshake."""

    server: int
    """Serial number of the server's certificate."""
    client: int | None
    """That of the client's; None if it showed none."""
    version: str | None
    cipher: str
    protocol: str | None
    """Agreed on by name (ALPN)."""
    is_resumed: bool
    session: ssl.SSLSession | None
    """To resume it with."""


def serial(path: str) -> int:
    """Serial number of a file's certificate."""
    return x509.load_pem_x509_certificate(Path(path).read_bytes()).serial_number


def handshake(
    server: ssl.SSLContext,
    client: ssl.SSLContext,
    name: str | None = None,
    session: ssl.SSLSession | None = None,
) -> Seen:
    """Shake hands, and send a byte each way.

    :param name: server's name that the client asks for.
    :param session: one that the client wants to resume.
    :raises ssl.SSLError: if either side refuses.
    """
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client.wrap_bio(to_client, to_server, server_hostname=name, session=session)
    asked = server.wrap_bio(to_server, to_client, server_side=True)
    waiting = [asking, asked]
    while waiting:
        for side in tuple(waiting):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            waiting.remove(side)
    for sender, receiver in ((asking, asked), (asked, asking)):
        sender.write(b"x")
        assert receiver.read(1) == b"x"
    shown = asked.getpeercert(True)
    cipher = asked.cipher()
    return Seen(
        _serial(asking.getpeercert(True)) or 0,
        _serial(shown),
        asked.version(),
        cipher[0] if cipher else "",
        asking.selected_alpn_protocol(),
        bool(asking.session_reused),
        asking.session,
    )


def hello_with(client: ssl.SSLContext, name: str, other: bytes) -> bytes:
    """A client's first bytes with another server name in them, of the same length."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client.wrap_bio(to_client, to_server, server_hostname=name)
    with suppress(ssl.SSLWantReadError):
        asking.do_handshake()
    return to_server.read().replace(name.encode(), other)


def _serial(der: bytes | None) -> int | None:
    return x509.load_der_x509_certificate(der).serial_number if der else None
