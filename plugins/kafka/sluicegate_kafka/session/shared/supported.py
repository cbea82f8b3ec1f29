"""Which API versions the gateway reads, and which APIs it does not offer."""

from sluicegate_kafka.codec.api_keys import ApiKey

SUPPORTED: dict[int, tuple[int, int]] = {
    # Produce 13 and Fetch 13+ name topics by id only; the names that policies need are in 12.
    ApiKey.PRODUCE: (3, 12),
    ApiKey.FETCH: (4, 12),
    ApiKey.METADATA: (0, 13),
    # Their version 10 names topics by id only.
    ApiKey.OFFSET_COMMIT: (2, 9),
    ApiKey.OFFSET_FETCH: (0, 9),
    ApiKey.FIND_COORDINATOR: (0, 6),
    ApiKey.JOIN_GROUP: (0, 9),
    ApiKey.LEAVE_GROUP: (0, 5),
    ApiKey.HEARTBEAT: (0, 4),
    ApiKey.SYNC_GROUP: (0, 5),
    # Version 0 is followed by tokens without a Kafka header, which could not be told from requests.
    ApiKey.SASL_HANDSHAKE: (1, 1),
    ApiKey.SASL_AUTHENTICATE: (0, 2),
    ApiKey.API_VERSIONS: (0, 4),
    ApiKey.TXN_OFFSET_COMMIT: (0, 5),
    ApiKey.DESCRIBE_QUORUM: (0, 2),
    ApiKey.DESCRIBE_CLUSTER: (0, 2),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: (0, 1),
}
"""Lowest and highest version of each API that the gate looks into; ApiVersions is cut down to these."""

HIDDEN: frozenset[int] = frozenset(
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
"""APIs that are neither advertised nor passed, since they would go round a policy."""
