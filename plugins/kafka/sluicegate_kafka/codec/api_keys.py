"""API keys, the versions of each API that the gateway reads, and the APIs that it does not offer."""

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final, NamedTuple

from sluicegate_kafka.codec.errors import ProtocolError


class ApiKey(IntEnum):
    """Kafka's API keys, as of Kafka 4.4."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    CONTROLLER_REGISTRATION = 70
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    ASSIGN_REPLICAS_TO_DIRS = 73
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    UPDATE_RAFT_VOTER = 82
    INITIALIZE_SHARE_GROUP_STATE = 83
    READ_SHARE_GROUP_STATE = 84
    WRITE_SHARE_GROUP_STATE = 85
    DELETE_SHARE_GROUP_STATE = 86
    READ_SHARE_GROUP_STATE_SUMMARY = 87
    STREAMS_GROUP_HEARTBEAT = 88
    STREAMS_GROUP_DESCRIBE = 89
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92
    STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE = 93
    UNREGISTER_CONTROLLER = 94


NEVER: Final = 32_768
"""Above every version: an API without flexible versions."""


class Versions(NamedTuple):
    """The versions of an API that the gateway reads."""

    lowest: int
    highest: int
    first_flexible: int
    """From this version on it has compact types, tagged fields and the longer headers."""


READ: Final[Mapping[int, Versions]] = MappingProxyType(
    {
        # Produce 13 and Fetch 13+ name topics by id only; the names that policies need are in 12.
        ApiKey.PRODUCE: Versions(3, 12, 9),
        ApiKey.FETCH: Versions(4, 12, 12),
        ApiKey.METADATA: Versions(0, 13, 9),
        # Their version 10 names topics by id only.
        ApiKey.OFFSET_COMMIT: Versions(2, 9, 8),
        ApiKey.OFFSET_FETCH: Versions(0, 9, 6),
        ApiKey.FIND_COORDINATOR: Versions(0, 6, 3),
        ApiKey.JOIN_GROUP: Versions(0, 9, 6),
        ApiKey.LEAVE_GROUP: Versions(0, 5, 4),
        ApiKey.HEARTBEAT: Versions(0, 4, 4),
        ApiKey.SYNC_GROUP: Versions(0, 5, 4),
        # Version 0 is followed by tokens without a Kafka header, which look like requests.
        ApiKey.SASL_HANDSHAKE: Versions(1, 1, NEVER),
        ApiKey.SASL_AUTHENTICATE: Versions(0, 2, 2),
        ApiKey.API_VERSIONS: Versions(0, 5, 3),
        ApiKey.CREATE_TOPICS: Versions(0, 7, 5),
        ApiKey.CREATE_PARTITIONS: Versions(0, 3, 2),
        # Version 6 names topics by id only.
        ApiKey.TXN_OFFSET_COMMIT: Versions(0, 5, 3),
        ApiKey.DESCRIBE_QUORUM: Versions(0, 2, 0),
        ApiKey.DESCRIBE_CLUSTER: Versions(0, 2, 0),
        ApiKey.CONSUMER_GROUP_HEARTBEAT: Versions(0, 1, 0),
    }
)
"""All APIs that the gateway reads; requests and responses of others pass unread, in any version."""

HIDDEN: Final[frozenset[int]] = frozenset(
    {
        # Share groups and streams groups join and fetch by other APIs, which bypass the policies.
        ApiKey.SHARE_GROUP_HEARTBEAT,
        ApiKey.SHARE_FETCH,
        ApiKey.SHARE_ACKNOWLEDGE,
        ApiKey.STREAMS_GROUP_HEARTBEAT,
        # A broker's request in another principal's name.
        ApiKey.ENVELOPE,
    }
)
"""APIs that are neither advertised nor passed, as they would bypass policies."""


def check_version(api_key: ApiKey, version: int) -> None:
    """Refuse a version that the gateway does not read.

    :raises ProtocolError: if it is one.
    """
    lowest, highest, _ = READ[api_key]
    if not lowest <= version <= highest:
        name = api_key.name.lower()
        raise ProtocolError(f"{name} version {version}, expected {lowest} to {highest}")
