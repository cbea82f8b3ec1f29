"""Requests of consumer groups: which group, which member, which topics.

Only as much of a request as policies ask about is read; unknown tagged fields are skipped, so that
clients with newer fields are served too.
"""

from typing import Final, NamedTuple

from sluicegate_kafka.codec.api_keys import ApiKey, check_version
from sluicegate_kafka.codec.errors import ProtocolError
from sluicegate_kafka.codec.frames import RequestHead, is_flexible
from sluicegate_kafka.codec.layouts import Reader
from sluicegate_kafka.codec.primitives import Cursor, guarded
from sluicegate_kafka.codec.slices import ENTRIES_PER_SLICE, Slices, guarded_slices

MAX_GROUP_REQUEST: Final = 8 * 1024 * 1024
"""Largest group request that is read, in bytes; many short names take many times that, and a second."""

MAX_NAMES: Final = 10_000
"""Names of topics or members in one request that are read, some 0.4 us each."""
_VERSION_BYTES = 2
_CONSUMER = "consumer"
_JOIN = Reader(
    "group* string, session_ms i32, rebalance_ms 1+ i32, member_id* string, instance_id* 5+ string?, "
    "protocol_type* string"
)
_COMMIT = Reader(
    "group* string, generation i32, member_id string, instance_id 7+ string?, retention_ms 2-4 i64, "
    "topics [topic* string, partitions* [index* i32, offset i64, epoch 6+ i32, metadata string?]]"
)
_TXN_COMMIT = Reader(
    "transaction string, group* string, producer_id i64, producer_epoch i16, generation 3+ i32, "
    "member_id 3+ string, instance_id 3+ string?, "
    "topics [topic* string, partitions* [index* i32, offset i64, epoch 2+ i32, metadata string?]]"
)


class JoinGroup(NamedTuple):
    """A member that joins in the classic protocol."""

    group: str
    member_id: str
    """Empty at its first attempt."""
    instance_id: str | None
    """The name of a static member."""
    topics: tuple[str, ...]
    """What it subscribes to; empty for protocols other than `consumer`."""


class OffsetCommit(NamedTuple):
    """Offsets that a group stores."""

    group: str
    topics: tuple[str, ...]
    partitions: tuple[tuple[int, ...], ...]
    """Partitions of each topic."""


class ConsumerGroupHeartbeat(NamedTuple):
    """A member's heartbeat by KIP-848."""

    group: str
    member_id: str
    epoch: int
    """0 to join, -1 to leave, -2 for a static member that will be back."""
    instance_id: str | None
    topics: tuple[str, ...] | None
    """None when the subscription did not change."""
    regex: str | None
    """None when unchanged or unused."""


def group_cursor(frame: bytes, head: RequestHead, api_key: ApiKey) -> Cursor:
    """A cursor at the body of a group request.

    :raises ProtocolError: when it is of another API or version, or too large.
    """
    if head.api_key != api_key:
        raise ProtocolError(f"API key {head.api_key}, expected {api_key}")
    check_version(api_key, head.version)
    if head.end - head.start > MAX_GROUP_REQUEST:
        raise ProtocolError(
            f"a group request of {head.end - head.start} bytes, expected up to {MAX_GROUP_REQUEST}"
        )
    return Cursor(frame[: head.end], head.body, is_flexible(api_key, head.version))


@guarded_slices
def join_group_slices(frame: bytes, head: RequestHead) -> Slices[JoinGroup]:
    """Read a JoinGroup request, versions 0 to 9; yields between two slices.

    :raises ProtocolError: when it or a consumer's subscription in it is malformed.
    """
    cursor = group_cursor(frame, head, ApiKey.JOIN_GROUP)
    group, member_id, instance_id, protocol_type = _JOIN.read(cursor, head.version)
    topics: dict[str, None] = {}
    known, left = b"", 2 * MAX_NAMES
    for read in range(cursor.array_length()):
        if read % ENTRIES_PER_SLICE == ENTRIES_PER_SLICE - 1:
            yield
        cursor.string()  # name of the assignor
        metadata = cursor.byte_string()
        # All assignors of one client have the same topics, in the same order.
        is_new = metadata and not (known and metadata.startswith(known, _VERSION_BYTES))
        if metadata and is_new and protocol_type == _CONSUMER:
            names, end = yield from _subscription(metadata, left)
            topics.update(dict.fromkeys(names))
            left -= len(names)
            known = metadata[_VERSION_BYTES:end]
        cursor.tags()
    return JoinGroup(group, member_id, instance_id, tuple(topics))


def _subscription(metadata: bytes, most: int) -> Slices[tuple[list[str], int]]:
    """Topics of a ConsumerProtocolSubscription, and where they end.

    All its versions begin alike, and none is flexible.
    """
    cursor = Cursor(metadata, 0, flexible=False)
    version = cursor.i16()
    if version < 0:
        raise ProtocolError(f"a subscription of version {version}")
    count = cursor.array_length()
    if count > most:
        raise ProtocolError(f"{count} topics for one more assignor, expected up to {most}")
    names: list[str] = []
    while len(names) < count:
        if names:
            yield
        names += [cursor.string() for _ in range(min(ENTRIES_PER_SLICE, count - len(names)))]
    return names, cursor.at


@guarded
def read_leave_group(frame: bytes, head: RequestHead) -> tuple[str, tuple[str, ...]]:
    """Read a LeaveGroup request, versions 0 to 5.

    :return: the group, and every member id and instance id that leaves it.
    :raises ProtocolError: when it is malformed.
    """
    cursor = group_cursor(frame, head, ApiKey.LEAVE_GROUP)
    group = cursor.string()
    if head.version < 3:
        return group, (cursor.string(),)
    names: list[str] = []
    count = cursor.array_length()
    if count > MAX_NAMES:
        raise ProtocolError(f"{count} members in one request, expected up to {MAX_NAMES}")
    for _ in range(count):
        names += filter(None, (cursor.string(), cursor.nullable_string()))
        if head.version >= 5:
            cursor.nullable_string()  # reason
        cursor.tags()
    return group, tuple(names)


def commit_slices(frame: bytes, head: RequestHead) -> Slices[OffsetCommit]:
    """Read an OffsetCommit request, versions 2 to 9, or a TxnOffsetCommit, 0 to 5; yields between two slices.

    :raises ProtocolError: when it is malformed.
    """
    topics: list[str] = []
    partitions: list[tuple[int, ...]] = []

    def add_topic(name: str, indexes: list[int]) -> None:
        topics.append(name)
        partitions.append(tuple(indexes))
        if len(topics) > MAX_NAMES:
            raise ProtocolError(f"over {MAX_NAMES} topics in one request")

    is_txn = head.api_key == ApiKey.TXN_OFFSET_COMMIT
    cursor = group_cursor(frame, head, ApiKey.TXN_OFFSET_COMMIT if is_txn else ApiKey.OFFSET_COMMIT)
    commit = _TXN_COMMIT if is_txn else _COMMIT
    (group,) = yield from commit.slices(cursor, head.version, topics=add_topic)
    return OffsetCommit(group, tuple(topics), tuple(partitions))


@guarded
def read_consumer_group_heartbeat(frame: bytes, head: RequestHead) -> ConsumerGroupHeartbeat:
    """Read a ConsumerGroupHeartbeat request, versions 0 and 1.

    :raises ProtocolError: when it is malformed.
    """
    cursor = group_cursor(frame, head, ApiKey.CONSUMER_GROUP_HEARTBEAT)
    group, member_id, epoch = cursor.string(), cursor.string(), cursor.i32()
    instance_id = cursor.nullable_string()
    cursor.nullable_string()  # rack
    cursor.i32()  # rebalance time-out
    count = cursor.nullable_array_length()
    if count > MAX_NAMES:
        raise ProtocolError(f"{count} topics in one request, expected up to {MAX_NAMES}")
    topics = None if count < 0 else tuple(cursor.string() for _ in range(count))
    regex = cursor.nullable_string() if head.version >= 1 else None
    return ConsumerGroupHeartbeat(group, member_id, epoch, instance_id, topics, regex)
