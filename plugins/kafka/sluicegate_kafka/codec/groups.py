"""Consumer groups and SASL: requests, refusals and results."""

from sluicegate_kafka.codec.group_requests import (
    ConsumerGroupHeartbeat,
    JoinGroup,
    OffsetCommit,
    read_consumer_group_heartbeat,
    read_join_group,
    read_leave_group,
    read_offset_commit,
    read_txn_offset_commit,
)
from sluicegate_kafka.codec.group_responses import (
    consumer_group_heartbeat_result,
    join_group_result,
    refuse_consumer_group_heartbeat,
    refuse_join_group,
    refuse_offset_commit,
    refuse_txn_offset_commit,
)
from sluicegate_kafka.codec.sasl import (
    is_accepted,
    principal_of,
    sasl_authenticate_result,
    sasl_mechanism,
    sasl_token,
)

__all__ = [
    "ConsumerGroupHeartbeat",
    "JoinGroup",
    "OffsetCommit",
    "consumer_group_heartbeat_result",
    "is_accepted",
    "join_group_result",
    "principal_of",
    "read_consumer_group_heartbeat",
    "read_join_group",
    "read_leave_group",
    "read_offset_commit",
    "read_txn_offset_commit",
    "refuse_consumer_group_heartbeat",
    "refuse_join_group",
    "refuse_offset_commit",
    "refuse_txn_offset_commit",
    "sasl_authenticate_result",
    "sasl_mechanism",
    "sasl_token",
]
