"""What a Pulsar cluster says of its own limits: configuration of brokers, policies of namespaces and topics.

Policies of topics are asked for one by one, which takes most of the time. After a while the rest becomes a
gap. Of each the local one is asked for first, and only if there is none the global one, which all clusters of
the topic share: so a broker applies them.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from sluicegate.model import Level
from sluicegate.model.own_limits import BrokerTlsFiles, OwnSetting, OwnSettings, OwnSettingsError
from sluicegate_pulsar.cluster.admin import AdminApi, AdminApiError
from sluicegate_pulsar.cluster.brokers import Brokers
from sluicegate_pulsar.cluster.long_delays import LONGEST_DELAY
from sluicegate_pulsar.config import PulsarConfig

MOST_TOPICS = 1_000
_READING_S = 30.0
"""After so long no more topics are asked about."""
_AT_ONCE = 4
_MOST_GAPS = 20
_DECIMALS = 9
"""Of a rate, as policies have it."""
_warned: set[str] = set()
"""Redirects that were warned of, as a gateway asks again and again."""
_REMEDY = "check `admin` of the entry: its address, its token, and the rights of that role"


class _Origin(NamedTuple):
    """Where a value stands."""

    level: Level
    name: str
    noun: str
    """`broker config`, `namespace policy`, `topic policy` or `global topic policy`."""


_COUNTS = {
    "max_producers_per_topic": ("maxProducersPerTopic", "max_producers_per_topic", "maxProducers"),
    "max_consumers_per_topic": ("maxConsumersPerTopic", "max_consumers_per_topic", "maxConsumers"),
    "max_consumers_per_subscription": (
        "maxConsumersPerSubscription",
        "max_consumers_per_subscription",
        "maxConsumersPerSubscription",
    ),
    "max_subscriptions_per_topic": (
        "maxSubscriptionsPerTopic",
        "max_subscriptions_per_topic",
        "maxSubscriptionsPerTopic",
    ),
    "max_unacked_messages_per_consumer": (
        "maxUnackedMessagesPerConsumer",
        "max_unacked_messages_per_consumer",
        "maxUnackedMessagesOnConsumer",
    ),
    "max_message_size": ("maxMessageSize", "max_message_size", "maxMessageSize"),
}
"""By field of the gateway: the names in the brokers' configuration, of namespaces, and of topics."""
_PUBLISH, _DISPATCH = "publishThrottlingRateIn", "dispatchThrottlingRateIn"
_RATES = {
    "max_publish_rate": (_PUBLISH, "publishMaxMessageRate", "publishRate"),
    "max_dispatch_rate": (_DISPATCH, "topicDispatchRate", "dispatchRate"),
    "max_subscription_dispatch_rate": (_DISPATCH, "subscriptionDispatchRate", "subscriptionDispatchRate"),
}
"""By field for messages: the prefix of the keys, the names of namespaces and of topics."""
_RATES_OF_BROKERS = {
    "max_publish_rate": "maxPublishRatePerTopicInMessages",
    "max_publish_rate_bytes": "maxPublishRatePerTopicInBytes",
    "max_dispatch_rate": "dispatchThrottlingRatePerTopicInMsg",
    "max_dispatch_rate_bytes": "dispatchThrottlingRatePerTopicInByte",
    "max_subscription_dispatch_rate": "dispatchThrottlingRatePerSubscriptionInMsg",
    "max_subscription_dispatch_rate_bytes": "dispatchThrottlingRatePerSubscriptionInByte",
}
_ONLY_BROKERS = {
    "maxTopicsPerNamespace": "the gateway does not limit how many topics there are.",
    "maxUnackedMessagesPerSubscription": "the gateway limits each consumer, not a subscription as a whole.",
    "brokerPublisherThrottlingMaxMessageRate": "each broker grants it by itself; see publish_quota.",
    "brokerPublisherThrottlingMaxByteRate": "each broker grants it by itself; see publish_quota_bytes.",
    "subscribeThrottlingRatePerConsumer": "the gateway limits new connections: see connection_rate_limit.",
}
"""What no policy sets, and why."""
_ONLY_NAMESPACES = {
    "max_topics_per_namespace": _ONLY_BROKERS["maxTopicsPerNamespace"],
    "max_unacked_messages_per_subscription": _ONLY_BROKERS["maxUnackedMessagesPerSubscription"],
}
_DELAYED = "delayedDelivery"
_BOUND = "Topics may have a lower one, not a higher one."
_OF_TOPICS = (*(names[2] for names in _COUNTS.values()), *(names[2] for names in _RATES.values()), _DELAYED)


async def own_settings(config: PulsarConfig, tls: BrokerTlsFiles) -> OwnSettings:
    """Ask a cluster.

    :raises OwnSettingsError: if its admin API does not answer, or there is none in the entry.
    """
    if config.admin is None:
        remedy = "add 'admin: {url: http://host:8080}' to the entry"
        raise OwnSettingsError("the entry has no address of the admin API", remedy)
    try:
        api = AdminApi(config.admin, tls.broker_tls, Brokers(config, {}), _warned)
        configuration = await api.configuration()
        settings = list(broker_settings(configuration))
        reading = _Reading(api, configuration.get("clusterName", ""))
        if configuration.get("topicLevelPoliciesEnabled", "true") == "true":
            reading.ends_s = asyncio.get_running_loop().time() + _READING_S
        settings += await reading.namespaces()
    except (AdminApiError, OSError, ValueError, TypeError, AttributeError) as error:
        raise OwnSettingsError(str(error), _REMEDY) from error
    return OwnSettings(tuple(settings), tuple(reading.gaps))


class _Reading:
    """Reads the policies of namespaces and topics.

    :param cluster: its name, under which namespaces keep rates.
    """

    def __init__(self, api: AdminApi, cluster: str) -> None:
        self._api = api
        self._cluster = cluster
        self.gaps: list[str] = []
        self.ends_s = 0.0
        """When to ask about no more topics, by the clock of the event loop; 0 for none at all."""
        self._left_out = 0
        self._asked = 0

    async def namespaces(self) -> list[OwnSetting]:
        """All of them, each followed by its topics."""
        settings: list[OwnSetting] = []
        for tenant, name in await self._api.namespaces():
            try:
                policies = await self._api.namespace_policies(tenant, name)
                settings += namespace_settings(f"{tenant}/{name}", policies, self._cluster)
                if self.ends_s:
                    settings += await self._topics(tenant, name)
            except AdminApiError as error:
                self.gaps.append(f"namespace {tenant}/{name}: {error}")
        if self._left_out:
            self.gaps.append(f"{self._left_out} topics were not asked about, as that takes too long")
        return settings

    async def _topics(self, tenant: str, namespace: str) -> list[OwnSetting]:
        topics = [each for each in await self._api.topics(tenant, namespace) if not _is_internal(each)]
        slots = asyncio.Semaphore(_AT_ONCE)
        loop = asyncio.get_running_loop()

        async def ask(topic: str) -> list[OwnSetting]:
            async with slots:
                if loop.time() > self.ends_s or self._asked >= MOST_TOPICS:
                    self._left_out += 1
                    return []
                self._asked += 1
                try:
                    return await self._topic(topic)
                except AdminApiError as error:
                    if len(self.gaps) < _MOST_GAPS:
                        self.gaps.append(f"topic {topic}: {error}")
                    return []

        return [one for each in await asyncio.gather(*map(ask, topics)) for one in each]

    async def _topic(self, topic: str) -> list[OwnSetting]:
        settings: list[OwnSetting] = []
        missing = list(_OF_TOPICS)
        for is_global in (False, True):
            policies = {
                name: await self._api.topic_policy(topic, name, is_global=is_global) for name in missing
            }
            settings += topic_settings(topic, policies, is_global=is_global)
            missing = [name for name, policy in policies.items() if policy is None]
        return settings


def _is_internal(topic: str) -> bool:
    return topic.rpartition("/")[2].startswith("__")


# -- what they mean -----------------------------------------------------------------------------------


def broker_settings(configuration: Mapping[str, str]) -> Iterator[OwnSetting]:
    """The settings in a broker's configuration."""
    origin = _Origin(Level.BROKER, "", "broker config")
    names = {**{field: names[0] for field, names in _COUNTS.items()}, **_RATES_OF_BROKERS}
    for field, key in (*names.items(), ("max_delivery_delay", LONGEST_DELAY)):
        if key in configuration:
            yield _number(origin, field, key, int(configuration[key]))
    if (active := configuration.get("delayedDeliveryEnabled")) is not None:
        yield _active(origin, "delayedDeliveryEnabled", active == "true")
    yield from _without_policy(origin, configuration, _ONLY_BROKERS)


def namespace_settings(name: str, policies: Mapping[str, Any], cluster: str) -> Iterator[OwnSetting]:
    """The policies of a namespace that are set.

    :param name: with its tenant.
    :param cluster: whose rates are meant.
    """
    origin = _Origin(Level.NAMESPACE, name, "namespace policy")
    for field, (_, key, _) in _COUNTS.items():
        if policies.get(key) is not None:
            yield _number(origin, field, key, int(policies[key]))
    for field, (prefix, key, _) in _RATES.items():
        yield from _rate(origin, field, key, prefix, (policies.get(key) or {}).get(cluster))
    yield from _delays(origin, "delayed_delivery_policies", policies.get("delayed_delivery_policies"))
    yield from _without_policy(origin, policies, _ONLY_NAMESPACES)


def topic_settings(
    name: str, policies: Mapping[str, Any], *, is_global: bool = False
) -> Iterator[OwnSetting]:
    """The policies of a topic that are set.

    :param name: full name.
    :param policies: by their names in paths.
    :param is_global: whether all clusters of the topic share them.
    """
    origin = _Origin(Level.TOPIC, name, "global topic policy" if is_global else "topic policy")
    for field, (_, _, key) in _COUNTS.items():
        if policies.get(key) is not None:
            yield _number(origin, field, key, int(policies[key]))
    for field, (prefix, _, key) in _RATES.items():
        yield from _rate(origin, field, key, prefix, policies.get(key))
    yield from _delays(origin, _DELAYED, policies.get(_DELAYED))


def _number(origin: _Origin, field: str, key: str, value: int) -> OwnSetting:
    """A limit; in Pulsar, 0 and less are unlimited."""
    is_bound = field == "max_message_size" and origin.level is Level.BROKER
    return OwnSetting(
        level=origin.level,
        name=origin.name,
        field=field,
        value=max(value, 0),
        origin=f"{origin.noun} {key}",
        text=str(value),
        notes=(_BOUND,) if is_bound else (),
        is_bound=is_bound,
    )


def _rate(
    origin: _Origin, field: str, key: str, prefix: str, rate: Mapping[str, Any] | None
) -> Iterator[OwnSetting]:
    """Messages and bytes of one rate."""
    if rate is None:
        return
    period = max(int(rate.get("ratePeriodInSecond") or 1), 1)
    for suffix, unit in (("", "Msg"), ("_bytes", "Byte")):
        value = int(rate.get(f"{prefix}{unit}", -1))
        setting = _number(origin, f"{field}{suffix}", f"{key}.{prefix}{unit}", value)
        if value > 0 and period > 1:
            yield OwnSetting(
                level=setting.level,
                name=setting.name,
                field=setting.field,
                value=value // period if value % period == 0 else round(value / period, _DECIMALS),
                origin=setting.origin,
                text=f"{value} in {period} s",
                notes=("The gateway's rates are per second.",),
            )
        else:
            yield setting


def _delays(origin: _Origin, key: str, policy: Mapping[str, Any] | None) -> Iterator[OwnSetting]:
    """The policy of delayed delivery, which is set as a whole."""
    if policy is None:
        return
    yield _active(origin, f"{key}.active", bool(policy.get("active", True)))
    if (tick_ms := int(policy.get("tickTime") or 0)) > 0:
        yield _number(origin, "delayed_delivery_tick_time", f"{key}.tickTime", tick_ms)
    longest_ms = int(policy.get("maxDeliveryDelayInMillis") or 0)
    yield _number(origin, "max_delivery_delay", f"{key}.maxDeliveryDelayInMillis", longest_ms)


def _active(origin: _Origin, key: str, is_active: bool) -> OwnSetting:
    return OwnSetting(
        level=origin.level,
        name=origin.name,
        field="delayed_delivery_active",
        value=is_active,
        origin=f"{origin.noun} {key}",
        text=str(is_active).lower(),
    )


def _without_policy(
    origin: _Origin, stated: Mapping[str, Any], reasons: Mapping[str, str]
) -> Iterable[OwnSetting]:
    for key, why in reasons.items():
        if int(stated.get(key) or 0) > 0:
            yield OwnSetting(
                level=origin.level,
                name=origin.name,
                origin=f"{origin.noun} {key}",
                text=str(stated[key]),
                notes=(why,),
            )
