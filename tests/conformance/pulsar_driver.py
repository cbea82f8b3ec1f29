"""Pulsar's doors: the proxy, and the wrappers of the classes of the Python client."""

import base64
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any

import pulsar
from tests.conformance.policing import by_client, by_gateway
from tests.conformance.pulsar_clients import AioDoor, BlockingDoor

from sluicegate.embedded import PolicyEngine
from sluicegate.model import ANONYMOUS
from sluicegate.testing.conformance import Ability, Door, DoorKind, Driver, Setup, without_in_clients
from sluicegate_pulsar.client import Client, aio
from sluicegate_pulsar.plugin import PulsarDriver
from sluicegate_pulsar.reference import ReferenceBroker

Broker = Callable[[Setup], AbstractAsyncContextManager[Mapping[str, Any]]]
"""Gives what `brokers:` says of a broker, while it is open."""

_ABILITIES = frozenset(
    {Ability.ACKNOWLEDGE, Ability.HEADERS, Ability.DELAY, Ability.PRINCIPAL, Ability.PRODUCERS_LEAVE}
)
_IN_CLIENTS = without_in_clients("pulsar", PulsarDriver.capabilities)
_BY_WEB = "asked at the web listener, which is not of this process: see tests/pulsar/real/test_creating"
_UNPLAYED = {
    "creating topics": _BY_WEB,
    "partitions of topics that are created": _BY_WEB,
    "schemas": "pulsar-client names no version of a schema: see tests/pulsar/session/producers",
}


def driver(broker: Broker) -> Driver:
    """Pulsar's doors to a broker."""

    @asynccontextmanager
    async def proxy(setup: Setup) -> AsyncIterator[Door]:
        async with broker(setup) as entry, by_gateway(setup, "pulsar", entry) as (policed, gateway):
            yield BlockingDoor(policed, partial(_with_token, f"pulsar://{gateway}"))

    @asynccontextmanager
    async def blocking(setup: Setup) -> AsyncIterator[Door]:
        async with broker(setup) as entry, by_client(setup, "pulsar", entry) as (policed, engine):
            yield BlockingDoor(policed, partial(_wrapped, Client, _url(entry), engine))

    @asynccontextmanager
    async def asynchronous(setup: Setup) -> AsyncIterator[Door]:
        async with broker(setup) as entry, by_client(setup, "pulsar", entry) as (policed, engine):
            yield AioDoor(policed, partial(_wrapped, aio.Client, _url(entry), engine))

    return Driver(
        "pulsar",
        PulsarDriver.capabilities,
        {
            "proxy": DoorKind(proxy, _ABILITIES | {Ability.CREATE_TOPIC, Ability.SCHEMA}, {}, _UNPLAYED),
            "pulsar-client": DoorKind(blocking, _ABILITIES | {Ability.CLIENT_ID}, _IN_CLIENTS),
            "pulsar-client asyncio": DoorKind(asynchronous, _ABILITIES | {Ability.CLIENT_ID}, _IN_CLIENTS),
        },
        topic=lambda name: f"persistent://public/default/{name}",
    )


def _with_token(url: str, principal: str, **options: Any) -> pulsar.Client:
    """A client that shows a token, which names its principal; the broker believes any."""
    if principal:
        claims = base64.urlsafe_b64encode(json.dumps({"sub": principal}).encode()).decode().rstrip("=")
        options["authentication"] = pulsar.AuthenticationToken(f"e30.{claims}.c2ln")
    return pulsar.Client(url, **options)


def _wrapped(new: Callable[..., Any], url: str, engine: PolicyEngine, principal: str, **options: Any) -> Any:
    """A wrapped client, which is told who its principal is: only the broker can read a token."""
    return new(url, policies=engine, principal=principal or ANONYMOUS, **options)


def _url(entry: Mapping[str, Any]) -> str:
    return f"pulsar://{entry['bootstrap'][0]}"


@asynccontextmanager
async def _reference(setup: Setup) -> AsyncIterator[Mapping[str, Any]]:
    async with ReferenceBroker() as broker:
        yield {
            "bootstrap": [broker.service_url.removeprefix("pulsar://")],
            "admin": {"url": broker.admin_url},
            "strict": "yes",
        }


DRIVER = driver(_reference)
"""The doors to an embedded broker."""
