"""Assignments of group members: by SyncGroup (classic protocol) and by heartbeats (KIP-848)."""

import struct
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple, TypeAlias

from sluicegate_kafka.codec.api_keys import ApiKey
from sluicegate_kafka.codec.errors import ProtocolError
from sluicegate_kafka.codec.frames import RequestHead, response_body
from sluicegate_kafka.codec.group_requests import group_cursor
from sluicegate_kafka.codec.primitives import (
    Cursor,
    guarded,
    with_length,
    write_array_length,
    write_nullable_string,
    write_string,
)
from sluicegate_kafka.codec.slices import ENTRIES_PER_SLICE, Slices, guarded_slices

Partitions: TypeAlias = Mapping[str, frozenset[int]]
"""Partitions by topic."""
PartitionsById: TypeAlias = Mapping[bytes, frozenset[int]]
"""Partitions by topic id."""

MAX_PARTITIONS: Final = 100_000
"""Partitions and topics of one assignment that are read. A group's leader may invent any number."""
METADATA_BY_ID: Final = 12
"""The first Metadata version that finds topics by their ids alone (KIP-516)."""
_ID_BYTES = 16
_LEFT: Final = -1
"""Member epoch of a heartbeat that leaves the group for good."""
_request_head = struct.Struct(">hhi").pack
_i32 = struct.Struct(">i").pack


class Member(NamedTuple):
    """A member in the classic protocol, by the name that it gives."""

    group: str
    member_id: str
    instance_id: str | None


@guarded
def read_member(frame: bytes, head: RequestHead) -> Member:
    """Read the member of a SyncGroup request, versions 0 to 5, or a Heartbeat, versions 0 to 4.

    :raises ProtocolError: when it is malformed.
    """
    cursor = group_cursor(frame, head, ApiKey(head.api_key))
    group = cursor.string()
    cursor.i32()  # generation
    member_id = cursor.string()
    return Member(group, member_id, cursor.nullable_string() if head.version >= 3 else None)


@guarded
def sync_group_result(frame: bytes, version: int) -> tuple[int, bytes]:
    """The error code and the assignment in a SyncGroup response.

    :param frame: the response without its length.
    :param version: of the request that it answers.
    :raises ProtocolError: when it is malformed.
    """
    cursor = response_body(frame, ApiKey.SYNC_GROUP, version)
    if version >= 1:
        cursor.i32()  # throttle time
    error = cursor.i16()
    if version >= 5:
        cursor.nullable_string()  # protocol type
        cursor.nullable_string()  # protocol name
    return error, cursor.byte_string() or b""


@guarded_slices
def assignment_slices(assignment: bytes) -> Slices[Partitions]:
    """A ConsumerProtocolAssignment; yields between two slices.

    All its versions begin alike, and none is flexible.

    :raises ProtocolError: when it is malformed, of another kind of group, or names too many partitions.
    """
    if not assignment:
        return {}
    cursor = Cursor(assignment, 0, flexible=False)
    cursor.i16()  # version
    by_topic: dict[str, frozenset[int]] = {}
    left, read = MAX_PARTITIONS, 0
    for _ in range(cursor.array_length()):
        topic = cursor.string()
        count = cursor.array_length()
        left -= 1 + count
        if left < 0:
            raise ProtocolError(f"an assignment of more than {MAX_PARTITIONS} partitions")
        read += 1 + count
        if read >= ENTRIES_PER_SLICE:
            read = 0
            yield
        partitions: set[int] = set()
        for start in range(0, count, ENTRIES_PER_SLICE):
            if start:
                yield
            partitions.update(cursor.i32s(min(count - start, ENTRIES_PER_SLICE)))
        by_topic[topic] = frozenset(partitions)
    return by_topic


@guarded_slices
def heartbeat_assignment_slices(frame: bytes, version: int) -> Slices[PartitionsById | None]:
    """The assignment in a ConsumerGroupHeartbeat response; None if it says nothing new.

    Yields between two slices.

    :param frame: the response without its length.
    :param version: of the request that it answers.
    :raises ProtocolError: when it is malformed.
    """
    cursor = response_body(frame, ApiKey.CONSUMER_GROUP_HEARTBEAT, version)
    cursor.skip(4 + 2)  # throttle time, error
    cursor.nullable_string()  # error message
    cursor.nullable_string()  # member id
    cursor.skip(4 + 4)  # member epoch, interval
    if cursor.i8() < 0:
        return None
    by_id: dict[bytes, frozenset[int]] = {}
    for read in range(cursor.array_length()):
        if read % ENTRIES_PER_SLICE == ENTRIES_PER_SLICE - 1:
            yield
        topic_id = _topic_id(cursor)
        by_id[topic_id] = frozenset(cursor.i32s(cursor.array_length()))
        cursor.tags()
    return by_id


def leave_by_heartbeat(
    version: int, correlation_id: int, client_id: str, group: str, member_id: str, instance_id: str | None
) -> bytes:
    """A ConsumerGroupHeartbeat request by which a member leaves its group; a frame with its length."""
    parts = [
        _head(ApiKey.CONSUMER_GROUP_HEARTBEAT, version, correlation_id, client_id),
        write_string(group, flexible=True),
        write_string(member_id, flexible=True),
        _i32(_LEFT),
        write_nullable_string(instance_id, flexible=True),
        b"\0",  # no rack
        _i32(-1),  # rebalance time-out: unchanged
        b"\0",  # subscribed topics: unchanged
        *([b"\0"] if version >= 1 else []),  # pattern: unchanged
        b"\0",  # assignor: unchanged
        b"\0",  # partitions: unchanged
        b"\0",
    ]
    return with_length(list(parts))


def ask_topic_names(correlation_id: int, client_id: str, topic_ids: Collection[bytes]) -> bytes:
    """A Metadata request for topics by their ids; a frame with its length."""
    return with_length(
        [
            _head(ApiKey.METADATA, METADATA_BY_ID, correlation_id, client_id),
            write_array_length(len(topic_ids), flexible=True),
            *(topic_id + b"\0\0" for topic_id in topic_ids),  # no name, no tags
            b"\0\0\0",  # create no topic, return no permissions, no tags
        ]
    )


@guarded_slices
def topic_names_slices(frame: bytes) -> Slices[Mapping[bytes, str]]:
    """Topic names by id, from the response to `ask_topic_names`; yields between two slices.

    The broker may not know some of them.

    :param frame: the response without its length.
    :raises ProtocolError: when it is malformed.
    """
    cursor = response_body(frame, ApiKey.METADATA, METADATA_BY_ID)
    cursor.i32()  # throttle time
    for _ in range(cursor.array_length()):
        cursor.i32()  # node
        cursor.string()
        cursor.i32()
        cursor.nullable_string()  # rack
        cursor.tags()
    cursor.nullable_string()  # cluster id
    cursor.i32()  # controller
    names: dict[bytes, str] = {}
    read = 0
    for _ in range(cursor.array_length()):
        error = cursor.i16()
        name = cursor.nullable_string()
        topic_id = _topic_id(cursor)
        if error == 0 and name is not None:
            names[topic_id] = name
        cursor.i8()  # internal
        partitions = cursor.array_length()
        read += 1 + 4 * partitions  # each has three lists
        if read >= ENTRIES_PER_SLICE:
            read = 0
            yield
        _skip_partitions(cursor, partitions)
    return names


def _skip_partitions(cursor: Cursor, count: int) -> None:
    for _ in range(count):
        cursor.skip(2 + 4 + 4 + 4)  # error, index, leader, epoch
        for _ in range(3):  # replicas, those in sync, those offline
            cursor.skip(4 * cursor.array_length())
        cursor.tags()
    cursor.i32()  # rights
    cursor.tags()


def _topic_id(cursor: Cursor) -> bytes:
    at = cursor.at
    cursor.skip(_ID_BYTES)
    return cursor.buffer[at : cursor.at]


def _head(api_key: ApiKey, version: int, correlation_id: int, client_id: str) -> bytes:
    return _request_head(api_key, version, correlation_id) + write_string(client_id, flexible=False) + b"\0"
