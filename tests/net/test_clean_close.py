"""A client's connection ends cleanly when its broker cannot be dialled."""

import asyncio
import socket
import ssl
from pathlib import Path

from tests.gateway.certificates import Authority
from tests.gateway.lab import Lab, closed_port, lab, on_uvloop

from sluicegate.config.models import ClientTls, Tls
from sluicegate.net.tls import TlsContexts, TlsFiles

_PATIENCE_S = 60
_SENT = 100_000
"""More than the gateway reads at once, and than it has read when it closes."""


def last_words(address: tuple[str, int], trusted: ssl.SSLContext | None) -> bytes:
    """What a client gets that sends a lot at once, up to an orderly end.

    :raises OSError: if its connection is reset, or TLS ends without a close_notify.
    """
    with socket.create_connection(address, timeout=_PATIENCE_S) as plain:
        if trusted is None:
            return _talk(plain)
        with trusted.wrap_socket(plain, server_hostname="127.0.0.1", suppress_ragged_eofs=False) as client:
            return _talk(client)


def _talk(client: socket.socket) -> bytes:
    client.sendall(b"x" * _SENT + b"\n")
    return client.recv(100)


@on_uvloop
async def closes_in_order(tls: TlsContexts, trusted: ssl.SSLContext | None) -> None:
    async with lab(closed_port(), closed_port(), tls=tls) as it:
        await _check(it, trusted)


async def _check(it: Lab, trusted: ssl.SSLContext | None) -> None:
    clients = [asyncio.to_thread(last_words, it.acceptor.address, trusted) for _ in range(20)]
    assert await asyncio.gather(*clients) == [b""] * 20
    assert it.counts["upstream_unreachable"] == 20
    await it.until(lambda: len(it.connections) == 0)


def test_a_plain_client_is_not_reset() -> None:
    closes_in_order(TlsContexts(), None)


def test_a_client_with_tls_gets_the_end_of_tls_and_is_not_reset(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.issue("gate", "127.0.0.1")
    tls = TlsFiles(Tls(client=ClientTls(cert=cert, key=key))).open()
    closes_in_order(tls, ssl.create_default_context(cafile=authority.ca))


@on_uvloop
async def test_a_client_is_closed_at_its_first_bytes_if_its_broker_is_down() -> None:
    async with lab(closed_port()) as it:
        reader, writer = await it.connect()
        writer.write(b"hello\n")
        assert await reader.read() == b""
        writer.close()
