"""TLS files that change while clients are connected, and their log lines and snapshot."""

import asyncio
import logging
import os
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from tests.gateway.certificates import Authority
from tests.gateway.handshakes import serial
from tests.gateway.lab import lab, on_uvloop, upstream
from tests.gateway.shown import greet, served_to, shown_at
from tests.gateway.web_plugin import SiteConfig, SiteDriver
from tests.waiting import LONG_S, until_so

from sluicegate.broker import WebServices
from sluicegate.config.models import BrokerTls, ClientTls, Tls
from sluicegate.net.expiry import ExpiryWarnings
from sluicegate.net.tls import TlsFiles
from sluicegate.processes.web import open_listener
from sluicegate.runtime.plugins import Plugins

NOW = datetime.now(UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@on_uvloop
async def both_sides(authority: Authority) -> None:
    cert, key = authority.issue("gate", "127.0.0.1")
    own_cert, own_key = authority.issue("to-broker", "gate")
    behind = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    behind.load_cert_chain(*authority.issue("broker", "127.0.0.1"))
    behind.verify_mode = ssl.CERT_REQUIRED
    behind.load_verify_locations(authority.ca)
    shown_to_broker: list[str] = []

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        shown_to_broker.append(writer.get_extra_info("peercert")["serialNumber"])
        while data := await reader.read(65_536):
            writer.write(data)

    files = TlsFiles(
        Tls(
            client=ClientTls(cert=cert, key=key),
            broker=BrokerTls(ca=authority.ca, cert=own_cert, key=own_key),
        ),
    )
    trusted = ssl.create_default_context(cafile=authority.ca)
    async with upstream(echo, ssl=behind) as port, lab(port, tls=files.open()) as it:
        before = await it.connect(ssl=trusted)
        assert await greet(before) == b"hello\n"
        first, own_first = serial(cert), serial(own_cert)
        authority.issue("gate", "127.0.0.1")
        authority.issue("to-broker", "gate")
        await asyncio.to_thread(files.look, NOW)
        after = await it.connect(ssl=trusted)
        assert await greet(after) == await greet(before) == b"hello\n"
        assert (served_to(before), served_to(after)) == (first, serial(cert))
        assert [int(number, 16) for number in shown_to_broker] == [own_first, serial(own_cert)]
        assert it.counts["connections_closed"] == 0


def test_open_connections_stay_and_new_ones_use_the_new_files(authority: Authority) -> None:
    both_sides(authority)


@on_uvloop
async def watched(authority: Authority) -> None:
    cert, key = authority.issue("gate", "127.0.0.1")
    section = ClientTls(cert=cert, key=key)
    files = TlsFiles(Tls(client=section), sections=[(("tls", "client"), section)])
    files.open()
    watching = asyncio.ensure_future(files.watch())
    authority.issue("gate", "127.0.0.1")
    await until_so(lambda: files.snapshot()[0]["renewals"] == 1)
    files.renew()  # as SIGHUP does
    await until_so(lambda: files.snapshot()[0]["renewals"] == 2)
    watching.cancel()


def test_files_are_reloaded_on_change_and_on_request(authority: Authority) -> None:
    watched(authority)


async def test_the_web_listener_watches_the_same_files(authority: Authority) -> None:
    cert, key = authority.issue("gate", "127.0.0.1")
    entry = {
        "name": "b1",
        "system": "site",
        "bootstrap": ["127.0.0.1:1"],
        "listen": {"port": 0},
        "web_port": 0,
    }
    config = SiteConfig.model_validate({**entry, "tls": {"client": {"cert": cert, "key": key}}})
    plugins = cast("Plugins", SimpleNamespace(drivers={"site": SiteDriver()}))
    listener = open_listener(plugins, config, lambda config, tls: cast("WebServices", None))
    assert listener is not None
    listener.start()
    scheme, _, address = listener.url.partition("://")
    host, _, port = address.rpartition(":")
    trusted = ssl.create_default_context(cafile=authority.ca)
    assert scheme == "https"
    assert await shown_at((host, int(port)), trusted) == serial(cert)
    authority.issue("gate", "127.0.0.1")
    listener.renew_tls()
    async with asyncio.timeout(LONG_S):
        while await shown_at((host, int(port)), trusted) != serial(cert):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    await listener.stop()


async def test_nothing_is_watched_without_files() -> None:
    await TlsFiles(Tls()).watch()


def test_log_and_snapshot_report_a_mismatched_key_pair(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    cert, key = authority.issue("gate", "gate.example")
    section = ClientTls(cert=cert, key=key, client_ca=authority.ca)
    files = TlsFiles(Tls(client=section, warn_before=()), sections=[(("tls", "client"), section)])
    files.open()
    [before] = files.snapshot()
    assert [role[:2] for role in before["not_after"]] == [("cert", cert), ("client_ca", authority.ca)]
    os.replace(authority.issue("other", "gate.example")[1], key)
    for _ in range(3):
        files.look(NOW)
    [line] = [record.getMessage() for record in caplog.records]
    assert line == (
        f"tls.client.key: {key!r} is not the key of certificate {cert!r}; name the key that belongs to the "
        "certificate. The last good files stay in use, and these are tried again when they change"
    )
    [broken] = files.snapshot()
    assert (broken["successful"], broken["not_after"]) == (False, before["not_after"])
    authority.issue("gate", "gate.example")
    files.look(NOW)
    assert caplog.records[-1].getMessage() == "TLS files read again"
    [renewed] = files.snapshot()
    assert (renewed["section"], renewed["successful"], renewed["renewals"]) == ("tls.client", True, 1)


def test_other_sections_of_an_entry_are_renewed_too(authority: Authority) -> None:
    """Such as that of the gateway's own login."""
    cert, key = authority.issue("login", "gate")
    section = BrokerTls(ca=authority.ca, cert=cert, key=key, server_name="kafka.internal")
    files = TlsFiles(Tls(), sections=[(("identity", "tls"), section)])
    assert files.snapshot() == []
    assert files.context_for(section) is not files.broker
    authority.issue("login", "gate")
    files.look(NOW)
    [told] = files.snapshot()
    assert (told["section"], told["renewals"]) == ("identity.tls", 1)


def warned(
    authority: Authority, caplog: pytest.LogCaptureFixture, *looks: timedelta, before: tuple[timedelta, ...]
) -> list[str]:
    """Warnings of one certificate, looked at so long before its end."""
    cert, key = authority.issue("gate", "gate.example")
    section = ClientTls(cert=cert, key=key)
    milliseconds = tuple(int(each / timedelta(milliseconds=1)) for each in before)
    files = TlsFiles(Tls(client=section, warn_before=milliseconds), sections=[(("tls", "client"), section)])
    files.open()
    [[_, _, ends]] = files.snapshot()[0]["not_after"]
    for left in looks:
        files.look(datetime.fromtimestamp(ends, UTC) - left)
    return [
        f"{record.levelname}: {record.getMessage().partition('.pem')[2][2:]}" for record in caplog.records
    ]


def test_an_expiring_certificate_is_logged_ahead_and_not_too_often(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    looks = (
        40 * DAY,
        30 * DAY,
        29 * DAY,
        8 * DAY,
        7 * DAY,
        6.5 * DAY,
        6 * DAY,
        HOUR,
        -HOUR,
        -2 * HOUR,
        -2 * DAY,
    )
    told = warned(authority, caplog, *looks, before=(30 * DAY, 7 * DAY))
    said = "; renew the file: it is read again without a restart"
    assert told == [
        f"WARNING: expires in 30 days{said}",
        f"WARNING: expires in 7 days{said}",
        f"WARNING: expires in 6 days{said}",
        f"WARNING: expires in 1 h{said}",
        f"ERROR: has expired{said}",
        f"ERROR: has expired{said}",
    ]


def test_expiry_warnings_can_be_switched_off(authority: Authority, caplog: pytest.LogCaptureFixture) -> None:
    assert warned(authority, caplog, 3 * DAY, HOUR, -HOUR, before=()) == []


def test_a_renewed_certificate_gets_its_own_warnings(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    cert, key = authority.issue("gate", "gate.example")
    section = ClientTls(cert=cert, key=key)
    files = TlsFiles(Tls(client=section), sections=[(("tls", "client"), section)])
    files.open()
    for _ in range(2):
        files.look(NOW)
    assert len(caplog.records) == 1
    authority.issue("gate", "gate.example", shifted_by=HOUR)
    files.look(NOW)
    files.look(NOW)
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]


def test_warnings_distinguish_the_roles_of_a_file(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    warnings = ExpiryWarnings([DAY])
    cert, key = authority.issue("gate", "gate.example")
    section = ClientTls(cert=cert, key=key, client_ca=authority.ca)
    files = TlsFiles(Tls(client=section, warn_before=()))
    files.open()
    for _ in range(2):
        warnings.look("tls.client", next(iter(files._renewals.values())).expiries, NOW)
    assert [vars(record)["key"] for record in caplog.records] == ["tls.client.cert", "tls.client.client_ca"]
