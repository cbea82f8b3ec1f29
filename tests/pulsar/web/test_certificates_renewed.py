"""The web listener, and what it asks the admin API over, while certificates are renewed."""

import asyncio
import ssl
from pathlib import Path

import httpx
from tests.gateway.certificates import Authority
from tests.gateway.handshakes import serial
from tests.gateway.shown import served_to, shown_at
from tests.pulsar.web.fake_admin import FakeAdmin
from tests.pulsar.web.lab import FakeServices, config, serving_over
from tests.waiting import LONG_S

from sluicegate.config.models import BrokerTls, ClientTls
from sluicegate.net.renewal import Renewal
from sluicegate_pulsar.web.site import PulsarSite


async def test_open_connections_stay_and_new_ones_see_the_new_certificates(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.issue("gate", "127.0.0.1")
    admin_cert, admin_key = authority.issue("admin", "127.0.0.1")
    listener = Renewal(ClientTls(cert=cert, key=key))
    towards_admin = Renewal(BrokerTls(ca=authority.ca))
    trusted = ssl.create_default_context(cafile=authority.ca)
    services = FakeServices()
    services.broker_tls = towards_admin.context
    admin_side = Renewal(ClientTls(cert=admin_cert, key=admin_key))
    async with serving_over(FakeAdmin(), admin_side.context) as admin_url:
        site = PulsarSite(config(admin_url), services)
        async with (
            serving_over(site, listener.context) as url,
            httpx.AsyncClient(base_url=url, verify=trusted, trust_env=False, timeout=LONG_S) as client,
        ):
            address = httpx.URL(url).host, httpx.URL(url).port or 0
            streams = await asyncio.open_connection(*address, ssl=trusted)
            first = serial(cert)
            authority.issue("gate", "127.0.0.1")
            authority.issue("admin", "127.0.0.1")
            for renewal in (listener, admin_side, towards_admin):
                renewal.look(force=True)
            streams[1].write(b"GET /admin/v2/clusters HTTP/1.1\r\nHost: gate\r\n\r\n")
            assert (await streams[0].readline()).startswith(b"HTTP/1.1 200")
            assert (served_to(streams), await shown_at(address, trusted)) == (first, serial(cert))
            assert (await client.get("/admin/v2/clusters")).status_code == 200
            streams[1].close()
        await site.close()
