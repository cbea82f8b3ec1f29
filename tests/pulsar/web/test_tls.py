"""TLS on both sides of the web listener."""

import logging
import ssl
from pathlib import Path

import httpx
import pytest
from tests.pulsar.web.fake_admin import FakeAdmin
from tests.pulsar.web.lab import TOPIC, FakeServices, config, serving
from tests.real.certificates import Authority
from tests.waiting import LONG_S

from sluicegate.config.models import ClientTls
from sluicegate_pulsar.web.site import PulsarSite


async def test_both_sides_may_speak_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    broker, gate = authority.issue("broker"), authority.issue("gate")
    trusted = ssl.create_default_context(cafile=str(authority.certificate))
    admin, services = FakeAdmin(), FakeServices()
    services.broker_tls = trusted
    shown = ClientTls(cert=str(broker.certificate), key=str(broker.key))
    own = ClientTls(cert=str(gate.certificate), key=str(gate.key))
    async with serving(admin, shown) as admin_url:
        site = PulsarSite(config(admin_url), services)
        async with (
            serving(site, own) as url,
            httpx.AsyncClient(base_url=url, verify=trusted, trust_env=False, timeout=LONG_S) as client,
        ):
            admin.fixed["/admin"] = (302, {"location": f"{admin_url}/admin/v2/clusters"}, b"")
            assert (await client.get("/admin")).headers["location"] == f"{url}/admin/v2/clusters"
            assert (await client.post(TOPIC, json={"fixedDeliveryDelayInMillis": 5})).status_code == 204
        await site.close()


async def test_a_broker_with_another_certificate_is_rejected(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    stranger = Authority(tmp_path / "other").issue("broker")
    services = FakeServices()
    services.broker_tls = ssl.create_default_context(cafile=str(Authority(tmp_path / "own").certificate))
    admin = FakeAdmin()
    async with serving(admin, ClientTls(cert=str(stranger.certificate), key=str(stranger.key))) as admin_url:
        site = PulsarSite(config(admin_url), services)
        async with (
            serving(site) as url,
            httpx.AsyncClient(base_url=url, verify=False, timeout=LONG_S) as client,
        ):
            answer = await client.get("/admin/v2/clusters")
        await site.close()
    assert answer.status_code == 502
    assert "CERTIFICATE_VERIFY_FAILED" in caplog.text
    assert admin.seen == []
