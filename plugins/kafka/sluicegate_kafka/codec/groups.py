"""Consumer groups and SASL: requests, refusals and results."""

from sluicegate_kafka.codec.assignments import (
    ask_topic_names,
    heartbeat_assignment,
    leave_by_heartbeat,
    read_assignment,
    read_member,
    sync_group_result,
    topic_names,
)
from sluicegate_kafka.codec.committed import committed_offsets, offset_fetch_group
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
    heartbeat_error,
    join_group_result,
    refuse_consumer_group_heartbeat,
    refuse_heartbeat,
    refuse_join_group,
    refuse_offset_commit,
    refuse_txn_offset_commit,
    refused_topics,
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
    "ask_topic_names",
    "committed_offsets",
    "consumer_group_heartbeat_result",
    "heartbeat_assignment",
    "heartbeat_error",
    "is_accepted",
    "join_group_result",
    "leave_by_heartbeat",
    "offset_fetch_group",
    "principal_of",
    "read_assignment",
    "read_consumer_group_heartbeat",
    "read_join_group",
    "read_leave_group",
    "read_offset_commit",
    "read_member",
    "read_txn_offset_commit",
    "refuse_consumer_group_heartbeat",
    "refuse_heartbeat",
    "refuse_join_group",
    "refuse_offset_commit",
    "refuse_txn_offset_commit",
    "refused_topics",
    "sasl_authenticate_result",
    "sasl_mechanism",
    "sasl_token",
    "sync_group_result",
    "topic_names",
]
