"""A web site between a client and a fake admin API, on real sockets."""

import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx
from tests.pulsar.web.fake_admin import FakeAdmin
from tests.runtime.rules import change_beside
from tests.waiting import LONG_S

from sluicegate.broker import PolicyUnavailableError
from sluicegate.config.fields import PolicyFields
from sluicegate.config.models import ClientTls
from sluicegate.config.tls import context_for_clients
from sluicegate.engine.hierarchy import Resolver
from sluicegate.model import Level, PolicyLayer, PolicySet
from sluicegate.net.http import HttpServer
from sluicegate.policies.creation import CreationPolicies
from sluicegate.policies.delay import DelayPolicies
from sluicegate.store import MemoryStore
from sluicegate_pulsar.config import PulsarConfig
from sluicegate_pulsar.web.site import PulsarSite

TOPIC = "/admin/v2/persistent/public/default/orders/delayedDelivery"
TOPIC_NAME = "persistent://public/default/orders"
NAMESPACE = "/admin/v2/namespaces/public/default/delayedDelivery"
_FIELDS = PolicyFields.of([DelayPolicies, CreationPolicies])


class FakeServices:
    """A `broker.WebServices` over a store in memory."""

    def __init__(self, layers: Sequence[PolicyLayer] = (), facts: Mapping[str, str] | None = None) -> None:
        self.store = MemoryStore()
        self.layers = tuple(layers)
        self.facts = dict(facts or {})
        self.observe_only = False
        self.down = False
        self.broker_tls: ssl.SSLContext | None = None

    @property
    def resolver(self) -> Resolver:
        version, layers = self.store.layers()
        return Resolver(PolicySet(version, self.layers + layers, self.observe_only), _FIELDS.defaults)

    def recall(self, prefix: str) -> Mapping[str, str]:
        return {key: value for key, value in self.facts.items() if key.startswith(prefix)}

    async def change(self, level: Level, name: str, changes: Mapping[str, object], actor: str) -> None:
        if self.down:
            raise PolicyUnavailableError("policy store is locked by another process: try again")
        change_beside(self.store, _FIELDS, level, name, changes, actor)

    def stored(self, level: Level = Level.TOPIC, name: str = TOPIC_NAME) -> dict[str, object]:
        """What the store says of a topic or a namespace."""
        _, layers = self.store.layers()
        return {
            field: setting.value
            for layer in layers
            if (layer.level, layer.name) == (level, name)
            for field, setting in layer.settings.items()
        }


def config(url: str, **entry: Any) -> PulsarConfig:
    values: dict[str, Any] = {
        "name": "main",
        "system": "pulsar",
        "bootstrap": ("127.0.0.1:6650",),
        "listen": {"port": 16650},
        "admin": {"url": url},
        "web": {"listen": {"port": 0}},
    }
    return PulsarConfig.model_validate(values | entry)


class Lab:
    """What a test talks to."""

    def __init__(self, services: FakeServices, admin: FakeAdmin, admin_url: str, client: httpx.AsyncClient):
        self.services = services
        self.admin = admin
        self.admin_url = admin_url
        self.client = client

    @property
    def url(self) -> str:
        """The site's own."""
        return str(self.client.base_url).rstrip("/")

    async def get(self, path: str, **options: Any) -> httpx.Response:
        return await self.client.get(path, **options)

    async def set(self, path: str, document: object, **options: Any) -> httpx.Response:
        return await self.client.post(path, json=document, **options)

    async def delete(self, path: str, **options: Any) -> httpx.Response:
        return await self.client.delete(path, **options)


@asynccontextmanager
async def serving(app: Any, tls: ClientTls | None = None) -> AsyncIterator[str]:
    """Serve an application on a port of its own; gives its URL."""
    async with serving_over(app, context_for_clients(tls) if tls is not None else None) as url:
        yield url


@asynccontextmanager
async def serving_over(app: Any, tls: ssl.SSLContext | None) -> AsyncIterator[str]:
    """The same with a context that a test has made."""
    server = HttpServer(app, "127.0.0.1", 0, "test", tls)
    server.start()
    try:
        host, port = server.address
        yield f"{'http' if tls is None else 'https'}://{host}:{port}"
    finally:
        await server.stop()


@asynccontextmanager
async def lab_of(
    fake: FakeAdmin,
    services: FakeServices,
    *,
    timeout_s: float = LONG_S,
    settling_s: float = 0.0,
    **entry: Any,
) -> AsyncIterator[Lab]:
    async with serving(fake) as admin_url:
        site = PulsarSite(config(admin_url, **entry), services, timeout_s=timeout_s, settling_s=settling_s)
        try:
            async with (
                serving(site) as url,
                httpx.AsyncClient(base_url=url, trust_env=False, timeout=LONG_S, verify=False) as client,
            ):
                yield Lab(services, fake, admin_url, client)
        finally:
            await site.close()
