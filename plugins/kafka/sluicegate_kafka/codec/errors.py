"""Kafka error codes that the gateway sends or reads, and the error for malformed bytes."""

from typing import Final


class ProtocolError(Exception):
    """Bytes that cannot be what they claim to be.

    :ivar reason: what is wrong, in lower case, for the log line.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


NONE: Final = 0
UNKNOWN_TOPIC_OR_PARTITION: Final = 3
MESSAGE_TOO_LARGE: Final = 10
COORDINATOR_LOAD_IN_PROGRESS: Final = 14
COORDINATOR_NOT_AVAILABLE: Final = 15
NOT_ENOUGH_REPLICAS: Final = 19
UNKNOWN_MEMBER_ID: Final = 25
TOPIC_AUTHORIZATION_FAILED: Final = 29
GROUP_AUTHORIZATION_FAILED: Final = 30
CLUSTER_AUTHORIZATION_FAILED: Final = 31
INVALID_TIMESTAMP: Final = 32
UNSUPPORTED_VERSION: Final = 35
TOPIC_ALREADY_EXISTS: Final = 36
POLICY_VIOLATION: Final = 44
OUT_OF_ORDER_SEQUENCE_NUMBER: Final = 45
TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Final = 53
GROUP_ID_NOT_FOUND: Final = 69
MEMBER_ID_REQUIRED: Final = 79
GROUP_MAX_SIZE_REACHED: Final = 81
THROTTLING_QUOTA_EXCEEDED: Final = 89
