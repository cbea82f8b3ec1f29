"""Consumer groups and SASL: requests, refusals and results."""

from sluicegate_kafka.codec.assignments import (
    ask_topic_names,
    assignment_slices,
    heartbeat_assignment_slices,
    leave_by_heartbeat,
    read_member,
    sync_group_result,
    topic_names_slices,
)
from sluicegate_kafka.codec.committed import (
    committed_offsets_slices,
    offset_fetch_group,
)
from sluicegate_kafka.codec.group_requests import (
    ConsumerGroupHeartbeat,
    JoinGroup,
    OffsetCommit,
    join_group_slices,
    offset_commit_slices,
    read_consumer_group_heartbeat,
    read_leave_group,
    txn_offset_commit_slices,
)
from sluicegate_kafka.codec.group_responses import (
    consumer_group_heartbeat_result,
    heartbeat_error,
    join_group_result,
    members_left,
    refuse_consumer_group_heartbeat,
    refuse_heartbeat,
    refuse_join_group,
    refuse_offset_commit,
    refuse_txn_offset_commit,
    refused_topics_slices,
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
    "assignment_slices",
    "committed_offsets_slices",
    "consumer_group_heartbeat_result",
    "heartbeat_assignment_slices",
    "heartbeat_error",
    "is_accepted",
    "join_group_result",
    "join_group_slices",
    "leave_by_heartbeat",
    "members_left",
    "offset_commit_slices",
    "offset_fetch_group",
    "principal_of",
    "read_consumer_group_heartbeat",
    "read_leave_group",
    "read_member",
    "refuse_consumer_group_heartbeat",
    "refuse_heartbeat",
    "refuse_join_group",
    "refuse_offset_commit",
    "refuse_txn_offset_commit",
    "refused_topics_slices",
    "sasl_authenticate_result",
    "sasl_mechanism",
    "sasl_token",
    "sync_group_result",
    "topic_names_slices",
    "txn_offset_commit_slices",
]
