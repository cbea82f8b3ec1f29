"""Pulsar's own policies, set for each topic by the admin API."""

import asyncio
import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

from sluicegate.model import EffectivePolicies
from sluicegate_reports.runner.brokers.processes import UnavailableError
from sluicegate_reports.runner.doors.base import Judged, Setting

_APPLY_S = 20.0
_TICK_MS = 100
_NUMBERS: Mapping[str, str] = MappingProxyType(
    {
        "max_producers_per_topic": "maxProducers",
        "max_consumers_per_topic": "maxConsumers",
        "max_consumers_per_subscription": "maxConsumersPerSubscription",
        "max_subscriptions_per_topic": "maxSubscriptionsPerTopic",
        "max_message_size": "maxMessageSize",
        "max_unacked_messages_per_consumer": "maxUnackedMessagesOnConsumer",
    }
)
"""Pulsar's name of each policy that is a plain number."""
JUDGED: Mapping[str, Judged] = MappingProxyType(
    {
        "fixed_delivery_delay": Judged(
            not_applicable="Pulsar delays what a producer asks it to, and cannot be told to delay a topic"
        ),
        "connection_rate_limit": Judged(not_applicable="Pulsar limits no rate of producers and consumers"),
        "max_message_size": Judged(nearest="Pulsar compares metadata and payload together"),
    }
)
"""How far it enforces policies that it does not have as stated."""


def settings_of(held: EffectivePolicies) -> dict[str, object]:
    """Pulsar's settings for a topic, by Pulsar's name of the policy; without the product's defaults."""
    wanted: dict[str, object] = {
        theirs: int(held.number(ours))
        for ours, theirs in _NUMBERS.items()
        if held.number(ours) and held.level(ours)
    }
    for ours, theirs, word in (
        ("max_publish_rate", "publishRate", "publish"),
        ("max_dispatch_rate", "dispatchRate", "dispatch"),
        ("max_subscription_dispatch_rate", "subscriptionDispatchRate", "dispatch"),
    ):
        messages, size = int(held.number(ours)), int(held.number(f"{ours}_bytes"))
        if messages or size:
            wanted[theirs] = {
                f"{word}ThrottlingRateInMsg": messages or -1,
                f"{word}ThrottlingRateInByte": size or -1,
                **({"ratePeriodInSecond": 1} if word == "dispatch" else {}),
            }
    if held.number("max_delivery_delay"):
        wanted["delayedDelivery"] = {
            "active": True,
            "tickTime": _TICK_MS,
            "maxDeliveryDelayInMillis": int(held.number("max_delivery_delay")),
        }
    return wanted


async def set_policies(admin: str, setting: Setting) -> None:
    """Apply the policies that Pulsar has an equivalent of, and wait until its admin API shows them.

    :param admin: address of the admin API.
    :raises UnavailableError: if it refuses one, or does not show it within 20 s.
    """
    import httpx

    try:
        async with httpx.AsyncClient(base_url=admin, timeout=30, follow_redirects=True) as http:
            for topic in setting.topics.values():
                for name, value in settings_of(setting.resolve(topic)).items():
                    await _set(http, topic, name, value)
    except httpx.HTTPError as error:
        raise UnavailableError(f"Pulsar's admin API at {admin}: {type(error).__name__}: {error}") from None


async def _set(http: Any, topic: str, name: str, value: object) -> None:
    path = f"/admin/v2{topic_path(topic)}/{name}"
    response = await http.post(path, json=value)
    if response.is_error:
        raise UnavailableError(f"Pulsar refused {name} of {topic}: {response.status_code} {response.text}")
    # Policies of topics travel through a topic themselves.
    deadline = time.monotonic() + _APPLY_S
    while True:
        response = await http.get(path)
        shown = response.json() if response.content and not response.is_error else None
        if is_set(shown, value):
            return
        if time.monotonic() > deadline:
            raise UnavailableError(f"{name} of {topic} is still {shown!r} after {_APPLY_S:.0f} s")
        await asyncio.sleep(0.05)


def topic_path(topic: str) -> str:
    """Where a topic's pages start: `/persistent/public/default/orders`."""
    domain, _, rest = topic.partition("://")
    tenant, namespace, name = rest.split("/", 2)
    return f"/{domain}/{tenant}/{namespace}/{quote(name, safe='')}"


def is_set(shown: Any, wanted: Any) -> bool:
    """Whether all that is wanted was found; brokers add fields that were left out."""
    if isinstance(wanted, Mapping):
        return isinstance(shown, Mapping) and all(
            key in shown and is_set(shown[key], value) for key, value in wanted.items()
        )
    return bool(shown == wanted)
