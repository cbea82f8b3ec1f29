"""Responses to requests of consumer groups: the gateway's refusals, and results of joins."""

import struct
from collections.abc import Collection
from itertools import chain

from sluicegate_kafka.codec.api_keys import ApiKey
from sluicegate_kafka.codec.errors import NONE, UNKNOWN_MEMBER_ID
from sluicegate_kafka.codec.frames import RequestHead, is_flexible, response_body, response_head
from sluicegate_kafka.codec.group_requests import commit_slices
from sluicegate_kafka.codec.layouts import Reader
from sluicegate_kafka.codec.primitives import with_length, write_array_length, write_string
from sluicegate_kafka.codec.slices import ENTRIES_PER_SLICE, Slices

_NOT_THROTTLED = bytes(4)
_FIRST_LEAVING_TOGETHER = 3
"""Version of LeaveGroup with several members (KIP-345)."""
_GONE = frozenset({NONE, UNKNOWN_MEMBER_ID})
_NO_GENERATION = b"\xff\xff\xff\xff"
_LEAVING = Reader(
    "throttle_ms 1+ i32, error* i16, members* 3+ [member_id* string, instance_id* string?, error* i16]"
)
_BEATING = Reader("throttle_ms 1+ i32, error* i16")
_CONSUMER_BEATING = Reader("throttle_ms i32, error* i16, message string?, member_id* string?")
_JOINING = Reader(
    "throttle_ms 2+ i32, error* i16, generation i32, protocol_type 7+ string?, protocol string?, "
    "leader string, skip_assignment 9+ i8, member_id* string"
)
_TOPICS = "topics* [topic* string, partitions* [index i32, error* i16]]"
_COMMITTING = Reader(f"throttle_ms 3+ i32, {_TOPICS}")
_TXN_COMMITTING = Reader(f"throttle_ms i32, {_TOPICS}")
_i16 = struct.Struct(">h").pack
_i32 = struct.Struct(">i").pack


def _response(api_key: ApiKey, version: int, correlation_id: int, body: list[bytes]) -> bytes:
    """A framed response; the tagged fields at its end are added here."""
    tags = b"\0" if is_flexible(api_key, version) else b""
    return with_length([response_head(api_key, version, correlation_id), *body, tags])


def _throttled(version: int, since: int) -> bytes:
    return _NOT_THROTTLED if version >= since else b""


def refuse_join_group(version: int, correlation_id: int, code: int) -> bytes:
    """A JoinGroup response with an error; a frame with its length."""
    flexible = is_flexible(ApiKey.JOIN_GROUP, version)
    name = b"\0\0" if version >= 7 else write_string("", flexible)  # null type and name, or an empty name
    empty = write_string("", flexible)
    skip_assignment = b"\0" if version >= 9 else b""
    members = write_array_length(0, flexible)
    body = [_throttled(version, 2), _i16(code), _NO_GENERATION, name, empty, skip_assignment, empty, members]
    return _response(ApiKey.JOIN_GROUP, version, correlation_id, body)


def refuse_heartbeat(version: int, correlation_id: int, code: int) -> bytes:
    """A Heartbeat response with an error; a frame with its length."""
    return _response(ApiKey.HEARTBEAT, version, correlation_id, [_throttled(version, 1), _i16(code)])


def members_left(frame: bytes, version: int, named: Collection[str]) -> list[str]:
    """The members of a LeaveGroup request that have left.

    :param frame: the response without its length.
    :param version: of the request that it answers.
    :param named: member ids and instance ids of the request.
    :raises ProtocolError: when it is malformed.
    """
    error, stay = _LEAVING.read(response_body(frame, ApiKey.LEAVE_GROUP, version), version, members=_staying)
    if version < _FIRST_LEAVING_TOGETHER:
        return list(named) if error in _GONE else []
    names = set(chain(*stay))
    return [name for name in named if name not in names] if error == NONE else []


def _staying(member_id: str, instance_id: str | None, error: int) -> tuple[str, ...] | None:
    """The names of a member that has not left."""
    # For a static member the error may only mean that the member id is not its own.
    has_left = error in (_GONE if not instance_id else {NONE})
    return None if has_left else (member_id, instance_id or "")


def heartbeat_error(frame: bytes, version: int) -> int:
    """The error code in a Heartbeat response.

    :param frame: the response without its length.
    :param version: of the request that it answers.
    :raises ProtocolError: when it is malformed.
    """
    (error,) = _BEATING.read(response_body(frame, ApiKey.HEARTBEAT, version), version)
    return int(error)


def refuse_consumer_group_heartbeat(version: int, correlation_id: int, code: int) -> bytes:
    """A ConsumerGroupHeartbeat response with an error; a frame with its length."""
    # no text, no member id, epoch 0, interval 0, no assignment
    body = [_NOT_THROTTLED, _i16(code), b"\0\0", bytes(8), b"\xff"]
    return _response(ApiKey.CONSUMER_GROUP_HEARTBEAT, version, correlation_id, body)


def refuse_commit(frame: bytes, head: RequestHead, code: int) -> Slices[bytes]:
    """The answer to an OffsetCommit or TxnOffsetCommit request with an error for every partition.

    Yields between two slices.

    :return: a frame with its length.
    :raises ProtocolError: when the request is malformed.
    """
    api_key, commit = ApiKey(head.api_key), (yield from commit_slices(frame, head))
    throttled = 3 if api_key == ApiKey.OFFSET_COMMIT else 0
    flexible = is_flexible(api_key, head.version)
    tags = b"\0" if flexible else b""
    refused = _i16(code) + tags
    body = [_throttled(head.version, throttled), write_array_length(len(commit.topics), flexible)]
    for name, indexes in zip(commit.topics, commit.partitions, strict=True):
        body += [write_string(name, flexible), write_array_length(len(indexes), flexible)]
        for start in range(0, len(indexes), ENTRIES_PER_SLICE):
            if start:
                yield
            body.append(b"".join(_i32(i) + refused for i in indexes[start : start + ENTRIES_PER_SLICE]))
        body.append(tags)
    return _response(api_key, head.version, head.correlation_id, body)


def join_group_result(frame: bytes, version: int) -> tuple[int, str]:
    """The error code and the member id in a JoinGroup response.

    :param frame: the response without its length.
    :param version: of the request that it answers.
    :raises ProtocolError: when it is malformed.
    """
    error, member_id = _JOINING.read(response_body(frame, ApiKey.JOIN_GROUP, version), version)
    return error, member_id


def consumer_group_heartbeat_result(frame: bytes, version: int) -> tuple[int, str]:
    """The error code and member id (empty if none) in a ConsumerGroupHeartbeat response.

    :param frame: the response without its length.
    :param version: of the request that it answers.
    :raises ProtocolError: when it is malformed.
    """
    cursor = response_body(frame, ApiKey.CONSUMER_GROUP_HEARTBEAT, version)
    error, member_id = _CONSUMER_BEATING.read(cursor, version)
    return error, member_id or ""


def refused_topics_slices(frame: bytes, api_key: ApiKey, version: int) -> Slices[set[str]]:
    """Topics without any committed partition in an OffsetCommit or TxnOffsetCommit response.

    Yields between two slices.

    :param frame: the response without its length.
    :param api_key: which of the two.
    :param version: of the request that it answers.
    :raises ProtocolError: when it is malformed.
    """
    commit = _TXN_COMMITTING if api_key == ApiKey.TXN_OFFSET_COMMIT else _COMMITTING
    (topics,) = yield from commit.slices(response_body(frame, api_key, version), version, topics=_refused)
    return set(topics)


def _refused(topic: str, codes: list[int]) -> str | None:
    return None if NONE in codes else topic
