"""What a Kafka cluster says of its own limits: client quotas, topic configs, broker configs.

Requests are bounded: topics are asked about in groups, and only for the configs below. What a login may not
see becomes a gap, as the rest is still worth to know.
"""

import asyncio
from collections.abc import Awaitable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sluicegate.config.units import DURATION
from sluicegate.model import Level
from sluicegate.model.own_limits import BrokerTlsFiles, OwnSetting, OwnSettings, OwnSettingsError
from sluicegate_kafka.cluster.described_configs import Config
from sluicegate_kafka.cluster.login import login_options
from sluicegate_kafka.config import KafkaConfig

_TIMEOUT_S = 10.0
"""For each kind of setting; a request has a time-out of its own."""
_TOPICS_AT_ONCE = 500
_USER = "user"
_RIGHTS = (
    "the gateway's own login (`identity`) needs Describe and DescribeConfigs on the cluster and its topics"
)


class _Meaning(NamedTuple):
    field: str
    notes: tuple[str, ...]


_SIZE = _Meaning(
    "max_message_size",
    ("Kafka limits a whole batch, compressed and with its headers; the gateway limits each message.",),
)
_AHEAD = _Meaning(
    "max_timestamp_ahead",
    ("Kafka refuses later time stamps; the gateway does so on topics with a fixed delay.",),
)
_BEHIND = _Meaning("", ("no policy refuses messages for their age.",))
_RETENTION = _Meaning("", ("how long or how much Kafka keeps, which is not limited by a policy.",))
_OF_TOPICS: Mapping[str, _Meaning] = {
    "max.message.bytes": _SIZE,
    "message.timestamp.after.max.ms": _AHEAD,
    "message.timestamp.before.max.ms": _BEHIND,
    "retention.ms": _RETENTION,
    "retention.bytes": _RETENTION,
}
_OF_BROKERS: Mapping[str, _Meaning] = {
    "message.max.bytes": _SIZE,
    "log.message.timestamp.after.max.ms": _AHEAD,
}
_QUOTAS: Mapping[str, str] = {
    "producer_byte_rate": "",
    "consumer_byte_rate": "no policy limits all that one principal consumes; see max_dispatch_rate_bytes.",
    "request_percentage": "the time that brokers work for a client, which the gateway cannot measure.",
    "controller_mutation_rate": "topics that are created and deleted, which the gateway does not limit.",
    "connection_creation_rate": "connections of one address; see connection_rate_limit of topics.",
}
"""Client quotas, with the reason for those that no policy sets."""


async def own_settings(config: KafkaConfig, tls: BrokerTlsFiles) -> OwnSettings:
    """Ask a cluster.

    :raises OwnSettingsError: if no broker answers or accepts the login.
    """
    from aiokafka.errors import KafkaError

    from sluicegate_kafka.cluster.admin import admin_client

    try:
        async with admin_client(login_options(config, tls.tls_for)) as admin:
            nodes = await admin.node_ids()
            gaps: list[str] = []
            parts = [
                await _part("broker configs", _of_brokers(admin, nodes), gaps),
                await _part("topic configs", _of_topics(admin), gaps),
                await _part("client quotas", _client_quotas(admin, len(nodes)), gaps),
            ]
    except (KafkaError, OSError, TimeoutError) as error:
        where = ", ".join(str(each) for each in config.bootstrap)
        raise OwnSettingsError(
            f"{where}: {_reason(error)}", "check `bootstrap`, `tls.broker` and `identity` of the entry"
        ) from error
    return OwnSettings(tuple(one for part in parts for one in part), tuple(gaps))


async def _part(noun: str, asked: Awaitable[Iterable[OwnSetting]], gaps: list[str]) -> Iterable[OwnSetting]:
    from aiokafka.errors import KafkaError

    try:
        async with asyncio.timeout(_TIMEOUT_S):
            return await asked
    except (KafkaError, TimeoutError) as error:
        gaps.append(f"{noun}: {_reason(error)}; {_RIGHTS}")
        return []


def _reason(error: BaseException) -> str:
    return str(error) or type(error).__name__


# -- configs ------------------------------------------------------------------------------------------


async def _of_brokers(admin: Any, nodes: Sequence[int]) -> Iterable[OwnSetting]:
    from aiokafka.admin.config_resource import ConfigResourceType

    configs = await admin.configs(ConfigResourceType.BROKER, map(str, nodes), _OF_BROKERS)
    return broker_settings(configs)


def broker_settings(configs: Mapping[str, Iterable[Config]]) -> list[OwnSetting]:
    """Settings of a cluster: of each config the lowest value, if brokers differ.

    :param configs: by broker.
    """
    lowest: dict[str, tuple[int, str]] = {}
    for node, own in configs.items():
        for each in own:
            known = lowest.get(each.name)
            if known is None or int(each.value) < known[0]:
                lowest[each.name] = int(each.value), node
    return [
        one
        for name, (value, node) in lowest.items()
        for one in _setting(
            Level.BROKER, "", f"config {name} of broker {node}", str(value), _OF_BROKERS[name]
        )
    ]


async def _of_topics(admin: Any) -> Iterable[OwnSetting]:
    from aiokafka.admin.config_resource import ConfigResourceType

    names = await admin.topic_names()
    settings: list[OwnSetting] = []
    for begin in range(0, len(names), _TOPICS_AT_ONCE):
        asked = names[begin : begin + _TOPICS_AT_ONCE]
        settings += topic_settings(await admin.configs(ConfigResourceType.TOPIC, asked, _OF_TOPICS))
    return settings


def topic_settings(configs: Mapping[str, Iterable[Config]]) -> Iterator[OwnSetting]:
    """Settings of topics; what a topic inherits from its brokers is left out."""
    for topic, own in configs.items():
        for each in own:
            if each.is_own and each.name in _OF_TOPICS:
                origin = f"topic config {each.name}"
                yield from _setting(Level.TOPIC, topic, origin, each.value, _OF_TOPICS[each.name])


def _setting(level: Level, name: str, origin: str, text: str, meaning: _Meaning) -> Iterator[OwnSetting]:
    field, notes = meaning
    value = int(text)
    if meaning is _AHEAD and value > DURATION.maximum:
        if level is Level.BROKER:
            return  # the default of older versions, which limits nothing
        field, notes = "", ("so long that it limits nothing.",)
    yield OwnSetting(
        level=level, name=name, field=field, value=max(value, 0), origin=origin, text=text, notes=notes
    )


# -- client quotas ------------------------------------------------------------------------------------


async def _client_quotas(admin: Any, nodes: int) -> Iterable[OwnSetting]:
    return quota_settings(await admin.client_quotas(), nodes)


def quota_settings(
    entries: Iterable[tuple[Mapping[str, str | None], Mapping[str, float]]], nodes: int
) -> Iterator[OwnSetting]:
    """Client quotas as settings.

    :param entries: types and names of each entity, a default entity without a name; and its quotas.
    :param nodes: how many brokers there are; each grants the quota by itself.
    """
    for entity, quotas in entries:
        who = ", ".join(f"{kind} {name or '<default>'}" for kind, name in sorted(entity.items()))
        for key, rate in sorted(quotas.items()):
            yield _quota(entity, who, key, rate, nodes)


def _quota(entity: Mapping[str, str | None], who: str, key: str, rate: float, nodes: int) -> OwnSetting:
    origin, text = f"client quota {key} of {who}", f"{rate:.15g}"
    why = _QUOTAS.get(key, "not a quota that the gateway knows.")
    if not why and set(entity) != {_USER}:
        why = "the gateway has quotas of principals; a client id is not authenticated."
    if not why and rate < 1:
        why = "it blocks the user, but 0 means unlimited here: use an ACL."
    if why:
        return OwnSetting(level=Level.BROKER, origin=origin, text=text, notes=(why,))
    each = f"Each of the {nodes} brokers grants it by itself; here it is the quota of all together."
    user = entity[_USER]
    return OwnSetting(
        level=Level.BROKER,
        field="principal_publish_quota_bytes",
        value=int(rate * nodes),
        origin=origin,
        text=text,
        notes=(each,) if nodes > 1 else (),
        principal="" if user is None else f"User:{user}",
    )
