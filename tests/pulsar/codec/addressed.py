"""Every field in which a command carries an address, and a command of each kind with all of them filled."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from sluicegate_pulsar.codec.pulsar_pb2 import BaseCommand

_ASSIGNED = (("assigned_broker_service_url",), ("assigned_broker_service_url_tls",))
_BROKER = (("broker_service_url",), ("broker_service_url_tls",))

ADDRESS_FIELDS: Final[Mapping[int, tuple[tuple[str, ...], ...]]] = MappingProxyType(
    {
        BaseCommand.CONNECT: (("proxy_to_broker_url",),),
        BaseCommand.LOOKUP_RESPONSE: _BROKER,
        BaseCommand.CLOSE_PRODUCER: _ASSIGNED,
        BaseCommand.CLOSE_CONSUMER: _ASSIGNED,
        BaseCommand.TOPIC_MIGRATED: _BROKER,
        BaseCommand.SCALABLE_TOPIC_UPDATE: (
            ("dag", "segment_brokers", "broker_url"),
            ("dag", "segment_brokers", "broker_url_tls"),
            ("dag", "controller_broker_url"),
            ("dag", "controller_broker_url_tls"),
        ),
        BaseCommand.WATCH_TC_ASSIGNMENTS_UPDATE: (
            ("snapshot", "assignments", "broker_service_url"),
            ("snapshot", "assignments", "broker_service_url_tls"),
        ),
    }
)
"""Paths of the address fields below a command, by its type. All but CONNECT's go from brokers to clients."""

NO_BROKER_FIELDS: Final = frozenset({"ConsumerStatsResponse.address"})
"""Addresses that clients do not connect to: that one is the client's own end, as the broker sees it."""

COMMANDS: dict[int, object] = {
    BaseCommand.CONNECT: {"client_version": "c", "proxy_to_broker_url": "pulsar://b1"},
    BaseCommand.LOOKUP_RESPONSE: {
        "request_id": 1,
        "broker_service_url": "pulsar://b1",
        "broker_service_url_tls": "pulsar+ssl://b1",
    },
    BaseCommand.CLOSE_PRODUCER: {
        "producer_id": 1,
        "request_id": 1,
        "assigned_broker_service_url": "pulsar://b1",
        "assigned_broker_service_url_tls": "pulsar+ssl://b1",
    },
    BaseCommand.CLOSE_CONSUMER: {
        "consumer_id": 1,
        "request_id": 1,
        "assigned_broker_service_url": "pulsar://b1",
        "assigned_broker_service_url_tls": "pulsar+ssl://b1",
    },
    BaseCommand.TOPIC_MIGRATED: {
        "resource_id": 1,
        "broker_service_url": "pulsar://b1",
        "broker_service_url_tls": "pulsar+ssl://b1",
    },
    BaseCommand.SCALABLE_TOPIC_UPDATE: {
        "session_id": 1,
        "dag": {
            "epoch": 1,
            "segment_brokers": [
                {"segment_id": 1, "broker_url": "pulsar://b1", "broker_url_tls": "pulsar+ssl://b1"},
                {"segment_id": 2, "broker_url": "pulsar://b2"},
            ],
            "controller_broker_url": "pulsar://b1",
            "controller_broker_url_tls": "pulsar+ssl://b1",
        },
    },
    BaseCommand.WATCH_TC_ASSIGNMENTS_UPDATE: {
        "watch_id": 1,
        "snapshot": {
            "parallelism": 1,
            "assignments": [
                {
                    "tc_id": 1,
                    "broker_service_url": "pulsar://b1",
                    "broker_service_url_tls": "pulsar+ssl://b1",
                }
            ],
        },
    },
}


def addressed(kind: int) -> BaseCommand:
    """A command with the broker b1 in each of its addresses."""
    fields = {BaseCommand.DESCRIPTOR.fields_by_number[kind].name: COMMANDS[kind]}
    return BaseCommand(type=kind, **fields)  # type: ignore[arg-type]  # one of its fields
