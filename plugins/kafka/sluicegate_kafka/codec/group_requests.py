"""Requests of consumer groups: which group, which member, which topics.

Only as much of a request as policies ask about is read; unknown tagged fields are skipped, so that
clients with newer fields are served too.
"""

from typing import Final, NamedTuple

from sluicegate_kafka.codec.api_keys import ApiKey, check_version
from sluicegate_kafka.codec.errors import ProtocolError
from sluicegate_kafka.codec.frames import RequestHead, is_flexible
from sluicegate_kafka.codec.primitives import Cursor, guarded
from sluicegate_kafka.codec.slices import ENTRIES_PER_SLICE, Slices, guarded_slices

MAX_GROUP_REQUEST: Final = 8 * 1024 * 1024
"""Largest group request that is read, in bytes; many short names take many times that, and a second."""

MAX_NAMES: Final = 10_000
"""Names of topics or members in one request that are read, some 0.4 us each."""
_VERSION_BYTES = 2
_CONSUMER = "consumer"


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
    group = cursor.string()
    cursor.i32()  # session time-out
    if head.version >= 1:
        cursor.i32()  # rebalance time-out
    member_id = cursor.string()
    instance_id = cursor.nullable_string() if head.version >= 5 else None
    protocol_type = cursor.string()
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


@guarded_slices
def commit_slices(frame: bytes, head: RequestHead) -> Slices[OffsetCommit]:
    """Read an OffsetCommit request, versions 2 to 9, or a TxnOffsetCommit, 0 to 5; yields between two slices.

    :raises ProtocolError: when it is malformed.
    """
    is_txn = head.api_key == ApiKey.TXN_OFFSET_COMMIT
    cursor = group_cursor(frame, head, ApiKey.TXN_OFFSET_COMMIT if is_txn else ApiKey.OFFSET_COMMIT)
    if is_txn:
        cursor.string()  # transactional id
    group = cursor.string()
    if is_txn:
        cursor.skip(8 + 2)  # producer id and epoch
    if not is_txn or head.version >= 3:
        cursor.i32()  # generation
        cursor.string()  # member id
    if head.version >= (3 if is_txn else 7):
        cursor.nullable_string()  # instance id
    if not is_txn and head.version <= 4:
        cursor.i64()  # retention
    topics, partitions = yield from _committed(cursor, leader_epoch=head.version >= (2 if is_txn else 6))
    return OffsetCommit(group, topics, partitions)


def _committed(
    cursor: Cursor, leader_epoch: bool
) -> Slices[tuple[tuple[str, ...], tuple[tuple[int, ...], ...]]]:
    """Topics and partitions of a commit."""
    topics: list[str] = []
    partitions: list[tuple[int, ...]] = []
    read = 0
    for _ in range(cursor.array_length()):
        topics.append(cursor.string())
        indexes: list[int] = []
        for _ in range(cursor.array_length()):
            indexes.append(cursor.i32())
            cursor.skip(12 if leader_epoch else 8)  # offset, leader epoch
            cursor.nullable_string()  # metadata
            cursor.tags()
            read += 1
            if read % ENTRIES_PER_SLICE == 0:
                yield
        partitions.append(tuple(indexes))
        cursor.tags()
        if len(topics) > MAX_NAMES:
            raise ProtocolError(f"over {MAX_NAMES} topics in one request")
    return tuple(topics), tuple(partitions)


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
