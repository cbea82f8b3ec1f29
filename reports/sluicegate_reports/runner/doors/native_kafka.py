"""Kafka's own quotas: bytes a second by client id and broker, never by topic, and no counts at all.

The closest equivalent of a topic's limit: all producers and consumers of the topic use its name as their
client id, and that id has a quota. A client with another id is not limited.
"""

import struct
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from sluicegate_reports.runner.brokers.processes import UnavailableError
from sluicegate_reports.runner.doors.base import Broker, Judged, Setting

_QUOTAS: Mapping[str, str] = MappingProxyType(
    {"max_publish_rate_bytes": "producer_byte_rate", "max_dispatch_rate_bytes": "consumer_byte_rate"}
)
_NEAREST = Judged(nearest="a quota of a client id on each broker, not of a topic; it delays after the fact")
_BATCH = Judged(nearest="max.message.bytes is compared with whole record batches, not with messages")
_EXCHANGE_S = 10.0
_OVERHEAD_BYTES = 70
"""Least overhead of a batch of one record, besides its payload."""

_NO_COUNT = Judged(not_applicable="Kafka limits no number of clients of a topic")
_NO_MESSAGES = Judged(not_applicable="Kafka's quotas count bytes, not messages")
_NO_DELAY = Judged(not_applicable="Kafka delivers at once")
JUDGED: Mapping[str, Judged] = MappingProxyType(
    {
        "max_producers_per_topic": _NO_COUNT,
        "max_subscriptions_per_topic": _NO_COUNT,
        "max_consumers_per_topic": _NO_COUNT,
        "max_consumers_per_subscription": Judged(
            not_applicable="group.max.size holds for all groups of the broker, and cannot be set for a topic"
        ),
        "max_publish_rate": _NO_MESSAGES,
        "max_dispatch_rate": _NO_MESSAGES,
        "max_subscription_dispatch_rate": _NO_MESSAGES,
        "max_subscription_dispatch_rate_bytes": Judged(
            not_applicable="Kafka's quotas know client ids, not groups"
        ),
        "max_publish_rate_bytes": _NEAREST,
        "max_dispatch_rate_bytes": _NEAREST,
        "max_message_size": _BATCH,
        "connection_rate_limit": Judged(
            not_applicable="max.connection.creation.rate counts connections, not producers and consumers"
        ),
        "fixed_delivery_delay": _NO_DELAY,
        "max_delivery_delay": _NO_DELAY,
        "max_unacked_messages_per_consumer": Judged(
            not_applicable="a group commits offsets and acknowledges no single message"
        ),
    }
)
"""How far Kafka's quotas enforce each policy."""

_NOT_IN_PLUG_IN = Judged(
    not_applicable="the plug-in limits bytes published to and fetched from a broker only"
)
_OF_BROKER = Judged(nearest="one limit for all clients of a broker together, not of a topic")
STRIMZI_JUDGED: Mapping[str, Judged] = MappingProxyType(
    dict.fromkeys(JUDGED, _NOT_IN_PLUG_IN)
    | {"max_publish_rate_bytes": _OF_BROKER, "max_dispatch_rate_bytes": _OF_BROKER}
)
"""How far the Strimzi plug-in enforces each policy: it limits bytes a second of a whole broker."""


def strimzi_properties(publish_bytes: int, dispatch_bytes: int, port: int) -> dict[str, str]:
    """Lines of server.properties for the plug-in; a rate of 0 sets none."""
    prefix = "client.quota.callback.static."
    lines = {
        "client.quota.callback.class": "io.strimzi.kafka.quotas.StaticQuotaCallback",
        f"{prefix}kafka.admin.bootstrap.servers": f"127.0.0.1:{port}",
    }
    for name, rate in (("produce", publish_bytes), ("fetch", dispatch_bytes)):
        if rate:
            lines[prefix + name] = str(rate)
    return lines


async def set_quotas(broker: Broker, setting: Setting) -> None:
    """Apply the policies that Kafka has an equivalent of.

    :raises UnavailableError: if the broker refuses.
    """
    for topic in setting.topics.values():
        held = setting.resolve(topic)
        quotas = {name: held.number(policy) for policy, name in _QUOTAS.items() if held.number(policy)}
        if quotas:
            await _alter_client_quota(broker.addresses, topic, quotas)
        size = int(held.number("max_message_size"))
        if size and held.level("max_message_size"):
            await _set_topic(broker.addresses, topic, "max.message.bytes", str(size + _OVERHEAD_BYTES))


async def _set_topic(addresses: tuple[str, ...], topic: str, name: str, value: str) -> None:
    from aiokafka.admin import AIOKafkaAdminClient
    from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
    from aiokafka.errors import KafkaError

    admin = AIOKafkaAdminClient(bootstrap_servers=list(addresses))
    await admin.start()
    try:
        await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {name: value})])
    except KafkaError as error:
        raise UnavailableError(f"Kafka refused {name}={value} for {topic}: {error}") from None
    finally:
        await admin.close()


# -- AlterClientQuotas, version 0 (KIP-546), which no Python client offers --------------------------------

_API_KEY, _API_VERSION = 49, 0


def encode_quotas(client_id: str, quotas: Mapping[str, float]) -> bytes:
    """The body of a request that gives one client id its quotas."""
    entity = struct.pack(">i", 1) + _text("client-id") + _text(client_id)
    changes = b"".join(_text(name) + struct.pack(">d?", rate, False) for name, rate in quotas.items())
    return struct.pack(">i", 1) + entity + struct.pack(">i", len(quotas)) + changes + b"\0"


def decode_response(body: bytes) -> tuple[int, str]:
    """Error code and message of the one entry of an answer.

    :raises struct.error: if it is no such answer.
    """
    _throttle, entries, code, length = struct.unpack_from(">iihh", body)
    if entries != 1:
        raise struct.error(f"expected one entry, got {entries}")
    return code, body[12 : 12 + max(length, 0)].decode(errors="replace")


def _text(value: str) -> bytes:
    data = value.encode()
    return struct.pack(">h", len(data)) + data


async def _alter_client_quota(
    addresses: tuple[str, ...], client_id: str, quotas: Mapping[str, float]
) -> None:
    """Ask brokers in turn until one accepts; any broker forwards the request to the controller."""
    problem = "no address"
    for address in addresses:
        try:
            code, text = decode_response(await _exchange(address, encode_quotas(client_id, quotas)))
        except (OSError, EOFError, TimeoutError, struct.error) as error:
            problem = f"{address}: {type(error).__name__}: {error}"
            continue
        if code == 0:
            return
        problem = f"{address}: error {code} {text}"
    raise UnavailableError(f"Kafka's quotas cannot be set: {problem}")


async def _exchange(address: str, body: bytes) -> bytes:
    import asyncio

    host, _, port = address.rpartition(":")
    async with asyncio.timeout(_EXCHANGE_S):
        reader, writer = await asyncio.open_connection(host.strip("[]"), int(port))
        try:
            header = struct.pack(">hhi", _API_KEY, _API_VERSION, 1) + _text("sluicegate-compare")
            writer.write(struct.pack(">i", len(header) + len(body)) + header + body)
            await writer.drain()
            (length,) = struct.unpack(">i", await reader.readexactly(4))
            response: Any = await reader.readexactly(length)
            return bytes(response[4:])  # after the correlation id
        finally:
            writer.close()
