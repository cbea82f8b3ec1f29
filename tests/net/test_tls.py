import asyncio
import os
import ssl
from pathlib import Path

import pytest
from tests.gateway.certificates import Authority
from tests.gateway.lab import Lab, lab, on_uvloop, upstream

from sluicegate.config.models import BrokerTls, ClientTls, Tls
from sluicegate.net.tls import TlsFiles


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


def server_side(authority: Authority, host: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue(f"server-{host}", host))
    return context


async def answer(it: Lab, context: ssl.SSLContext | None = None) -> bytes:
    """What comes back for a greeting; nothing if the connection is closed."""
    try:
        reader, writer = await it.connect(ssl=context)
        writer.write(b"hello\n")
        return await reader.readline()
    except (ssl.SSLError, ConnectionError):
        return b""


@on_uvloop
async def tls_both_ways(authority: Authority) -> None:
    cert, key = authority.issue("gate", "127.0.0.1")
    tls = TlsFiles(
        Tls(
            client=ClientTls(cert=cert, key=key),
            broker=BrokerTls(ca=authority.ca, server_name="kafka.internal"),
        )
    ).open()
    behind = server_side(authority, "kafka.internal")
    trusting = ssl.create_default_context(cafile=authority.ca)
    payload = os.urandom(1 << 20) * 4
    async with upstream(ssl=behind) as port, lab(port, name="raw", tls=tls) as it:
        reader, writer = await it.connect(ssl=trusting)
        writer.write(payload)
        assert await reader.readexactly(len(payload)) == payload
        assert writer.get_extra_info("ssl_object").selected_alpn_protocol() is None
        writer.close()
        await it.until(lambda: len(it.connections) == 0)


def test_tls_to_client_and_broker_with_a_name_to_verify(authority: Authority) -> None:
    tls_both_ways(authority)


@on_uvloop
async def named_protocol(authority: Authority) -> None:
    cert, key = authority.issue("gate", "127.0.0.1")
    behind = server_side(authority, "127.0.0.1")
    behind.set_alpn_protocols(["h2"])
    agreed: list[str | None] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        agreed.append(writer.get_extra_info("ssl_object").selected_alpn_protocol())
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=behind)
    sides = Tls(client=ClientTls(cert=cert, key=key), broker=BrokerTls(ca=authority.ca))
    speaking = ssl.create_default_context(cafile=authority.ca)
    speaking.set_alpn_protocols(["http/1.1", "h2"])
    async with server, lab(server.sockets[0].getsockname()[1], tls=TlsFiles(sides, ("h2",)).open()) as it:
        reader, writer = await it.connect(ssl=speaking)
        assert writer.get_extra_info("ssl_object").selected_alpn_protocol() == "h2"
        writer.write(b"hello\n")
        assert await reader.read() == b""
    assert agreed == ["h2"]


def test_protocols_are_agreed_on_by_name_where_the_broker_kind_names_them(authority: Authority) -> None:
    named_protocol(authority)


@on_uvloop
async def client_certificates(authority: Authority) -> None:
    cert, key = authority.issue("gate", "127.0.0.1")
    tls = TlsFiles(Tls(client=ClientTls(cert=cert, key=key, client_ca=authority.ca))).open()
    async with upstream() as port, lab(port, tls=tls) as it:
        nameless = ssl.create_default_context(cafile=authority.ca)
        assert await answer(it, nameless) == b""
        await it.until(lambda: it.counts["client_handshakes_failed"] == 1)
        named = ssl.create_default_context(cafile=authority.ca)
        named.load_cert_chain(*authority.issue("alice", "alice"))
        assert await answer(it, named) == b"hello\n"


def test_clients_must_show_a_certificate_where_a_client_ca_is_set(authority: Authority) -> None:
    client_certificates(authority)


@on_uvloop
async def broker_wants_certificate(authority: Authority) -> None:
    cert, key = authority.issue("gate-as-client", "gate")
    behind = server_side(authority, "127.0.0.1")
    behind.verify_mode = ssl.CERT_REQUIRED
    behind.load_verify_locations(authority.ca)
    tls = TlsFiles(Tls(broker=BrokerTls(ca=authority.ca, cert=cert, key=key))).open()
    async with upstream(ssl=behind) as port, lab(port, tls=tls) as it:
        reader, writer = await it.connect()
        writer.write(b"hello\n")
        assert await reader.readline() == b"hello\n"


def test_certificate_is_shown_to_the_broker(authority: Authority) -> None:
    broker_wants_certificate(authority)


@on_uvloop
async def untrusted_broker(authority: Authority, elsewhere: Authority) -> None:
    behind = server_side(elsewhere, "127.0.0.1")
    tls = TlsFiles(Tls(broker=BrokerTls(ca=authority.ca))).open()
    async with upstream(ssl=behind) as port, lab(port, tls=tls) as it:
        reader, writer = await it.connect()
        writer.write(b"hello\n")
        assert await reader.read() == b""
        assert it.counts["upstream_unreachable"] == 1


def test_an_untrusted_broker_is_not_used(authority: Authority, tmp_path: Path) -> None:
    untrusted_broker(authority, Authority(tmp_path))


@on_uvloop
async def plain_client_on_tls_port(authority: Authority) -> None:
    cert, key = authority.issue("g", "g")
    tls = TlsFiles(Tls(client=ClientTls(cert=cert, key=key))).open()
    async with upstream() as port, lab(port, tls=tls, handshake_s=0.5) as it:
        assert b"hello" not in await answer(it)
        await it.until(lambda: it.counts["client_handshakes_failed"] == 1)
        # One that says nothing does not stay for good.
        silent, _ = await it.connect()
        assert await silent.read() == b""


def test_plain_and_silent_clients_on_a_tls_port_are_closed(authority: Authority) -> None:
    plain_client_on_tls_port(authority)


def test_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        TlsFiles(Tls(client=ClientTls(cert=str(tmp_path / "no.pem"), key="no.key"))).open()
