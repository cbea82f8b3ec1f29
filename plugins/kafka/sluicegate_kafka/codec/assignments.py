"""Assignments of group members: by SyncGroup (classic protocol) and by heartbeats (KIP-848)."""

import struct
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple, TypeAlias

from sluicegate_kafka.codec.api_keys import ApiKey
from sluicegate_kafka.codec.errors import ProtocolError
from sluicegate_kafka.codec.frames import RequestHead, response_body
from sluicegate_kafka.codec.group_requests import group_cursor
from sluicegate_kafka.codec.layouts import Reader
from sluicegate_kafka.codec.primitives import (
    Cursor,
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
_LEFT: Final = -1
"""Member epoch of a heartbeat that leaves the group for good."""
_MEMBER = Reader("group* string, generation i32, member_id* string, instance_id* 3+ string?")
_SYNC = Reader(
    "throttle_ms 1+ i32, error* i16, protocol_type 5+ string?, protocol 5+ string?, assignment* bytes"
)
_BEAT = Reader(
    "throttle_ms i32, error i16, message string?, member_id string?, epoch i32, interval_ms i32, "
    "has_assignment* i8"
)
_ASSIGNED = Reader("topics [topic_id* uuid, partitions* i32s]")
_NAMES = Reader(
    "throttle_ms i32, brokers [node i32, host string, port i32, rack string?], cluster string?, "
    "controller i32, topics* [error* i16, name* string?, topic_id* uuid, internal i8, partitions 4x["
    "error i16, index i32, leader i32, epoch i32, replicas i32s, in_sync i32s, offline i32s], rights i32]"
)
_request_head = struct.Struct(">hhi").pack
_i32 = struct.Struct(">i").pack


class Member(NamedTuple):
    """A member in the classic protocol, by the name that it gives."""

    group: str
    member_id: str
    instance_id: str | None


def read_member(frame: bytes, head: RequestHead) -> Member:
    """Read the member of a SyncGroup request, versions 0 to 5, or a Heartbeat, versions 0 to 4.

    :raises ProtocolError: when it is malformed.
    """
    return Member(*_MEMBER.read(group_cursor(frame, head, ApiKey(head.api_key)), head.version))


def sync_group_result(frame: bytes, version: int) -> tuple[int, bytes]:
    """The error code and the assignment in a SyncGroup response.

    :param frame: the response without its length.
    :param version: of the request that it answers.
    :raises ProtocolError: when it is malformed.
    """
    error, assignment = _SYNC.read(response_body(frame, ApiKey.SYNC_GROUP, version), version)
    return error, assignment or b""


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


def heartbeat_assignment_slices(frame: bytes, version: int) -> Slices[PartitionsById | None]:
    """The assignment in a ConsumerGroupHeartbeat response; None if it says nothing new.

    Yields between two slices.

    :param frame: the response without its length.
    :param version: of the request that it answers.
    :raises ProtocolError: when it is malformed.
    """
    cursor = response_body(frame, ApiKey.CONSUMER_GROUP_HEARTBEAT, version)
    (has_assignment,) = _BEAT.read(cursor, version)
    if has_assignment < 0:
        return None
    by_id: dict[bytes, frozenset[int]] = {}

    def add_topic(topic_id: bytes, partitions: tuple[int, ...]) -> None:
        by_id[topic_id] = frozenset(partitions)

    yield from _ASSIGNED.slices(cursor, version, topics=add_topic)
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


def topic_names_slices(frame: bytes) -> Slices[Mapping[bytes, str]]:
    """Topic names by id, from the response to `ask_topic_names`; yields between two slices.

    The broker may not know some of them.

    :param frame: the response without its length.
    :raises ProtocolError: when it is malformed.
    """
    cursor = response_body(frame, ApiKey.METADATA, METADATA_BY_ID)
    (topics,) = yield from _NAMES.slices(cursor, METADATA_BY_ID, topics=_named)
    return dict(topics)


def _named(error: int, name: str | None, topic_id: bytes) -> tuple[bytes, str] | None:
    return (topic_id, name) if error == 0 and name is not None else None


def _head(api_key: ApiKey, version: int, correlation_id: int, client_id: str) -> bytes:
    return _request_head(api_key, version, correlation_id) + write_string(client_id, flexible=False) + b"\0"
