"""Produce responses: the gateway's refusals, and several responses of the broker merged into one."""

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

from sluicegate_kafka.codec import errors
from sluicegate_kafka.codec.api_keys import ApiKey, check_version
from sluicegate_kafka.codec.frames import response_body, response_head
from sluicegate_kafka.codec.primitives import (
    Cursor,
    guarded,
    with_length,
    write_array_length,
    write_nullable_string,
    write_string,
    write_uvarint,
)
from sluicegate_kafka.codec.produce_requests import FIRST_FLEXIBLE

Refused: TypeAlias = tuple[str, Sequence[int], int, str]
"""Topic, its partitions, the error code and a text for people."""

_UNAUTHORIZED = frozenset(
    {
        errors.TOPIC_AUTHORIZATION_FAILED,
        errors.CLUSTER_AUTHORIZATION_FAILED,
        errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
_FIRST_WITH_LOG_START = 5
_FIRST_WITH_MESSAGE = 8
FIRST_WITH_ENDPOINTS = 10
"""The first version whose response may carry broker addresses (KIP-951)."""
_ENDPOINTS_TAG = 0
_PARTITION = struct.Struct(">ihqqq")
_STORED = struct.Struct(">ihq").unpack_from
"""Partition, error code and base offset: how each partition of a response starts."""
_PLAIN_END = 30 + 4 + 4 + 1
"""Bytes from the only partition to the end of a response without any text or tagged field."""
_pack_i32 = struct.Struct(">i").pack


class ProduceResponse(NamedTuple):
    """Where the parts of a Produce response stand."""

    topics_start: int
    """Offset of the first topic, after the array's length."""
    topic_count: int
    topics_end: int
    throttle_ms: int
    """It stands at `topics_end`."""
    tags: list[tuple[int, int, int, int]]
    """Tagged fields of the response: tag, offset of the size, start and end of the value."""


@guarded
def scan_produce_response(frame: bytes, version: int) -> ProduceResponse:
    """Find the parts of a Produce response.

    :param frame: the response without its length.
    :param version: of the request that it answers.
    :raises ProtocolError: when it is malformed or of a version that is not read here.
    """
    check_version(ApiKey.PRODUCE, version)
    cursor = response_body(frame, ApiKey.PRODUCE, version)
    count = cursor.array_length()
    topics_start = cursor.at
    for _ in range(count):
        cursor.string()
        for _ in range(cursor.array_length()):
            _skip_partition(cursor, version)
        cursor.tags()
    topics_end = cursor.at
    throttle_ms = cursor.i32()
    return ProduceResponse(topics_start, count, topics_end, throttle_ms, _tagged(cursor))


def _skip_partition(cursor: Cursor, version: int) -> None:
    cursor.skip(30 if version >= _FIRST_WITH_LOG_START else 22)
    if version >= _FIRST_WITH_MESSAGE:
        for _ in range(cursor.array_length()):
            cursor.i32()
            cursor.nullable_string()
            cursor.tags()
        cursor.nullable_string()
    cursor.tags()


@guarded
def appended(frame: bytes, version: int, only: tuple[str, int] | None = None) -> list[tuple[str, int, int]]:
    """Topic, partition and base offset of each batch that the broker stored.

    :param frame: the response without its length.
    :param version: of the request that it answers.
    :param only: topic and partition, if the request had one batch.
    :raises ProtocolError: when it is malformed or of a version that is not read here.
    """
    check_version(ApiKey.PRODUCE, version)
    if only is not None and version >= FIRST_FLEXIBLE and len(frame) == plain_response_length(only[0]):
        partition, error, offset = _STORED(frame, len(frame) - _PLAIN_END)
        return [(*only, offset)] if partition == only[1] and error == 0 and offset >= 0 else []
    cursor = response_body(frame, ApiKey.PRODUCE, version)
    stored: list[tuple[str, int, int]] = []
    for _ in range(cursor.array_length()):
        topic = cursor.string()
        for _ in range(cursor.array_length()):
            partition, error, offset = _STORED(frame, cursor.at)
            _skip_partition(cursor, version)
            if error == 0 and offset >= 0:
                stored.append((topic, partition, offset))
        cursor.tags()
    return stored


@guarded
def unauthorized(frame: bytes, version: int) -> set[str]:
    """Topics to which the broker does not let the client publish.

    :param frame: the response without its length.
    :param version: of the request that it answers.
    :raises ProtocolError: when it is malformed or of a version that is not read here.
    """
    check_version(ApiKey.PRODUCE, version)
    cursor = response_body(frame, ApiKey.PRODUCE, version)
    topics: set[str] = set()
    for _ in range(cursor.array_length()):
        topic = cursor.string()
        for _ in range(cursor.array_length()):
            if _STORED(frame, cursor.at)[1] in _UNAUTHORIZED:
                topics.add(topic)
            _skip_partition(cursor, version)
        cursor.tags()
    return topics


def _tagged(cursor: Cursor) -> list[tuple[int, int, int, int]]:
    """The tagged fields that come next, as tag, offset of the size, start and end of the value."""
    fields: list[tuple[int, int, int, int]] = []
    if cursor.flexible:
        for _ in range(cursor.uvarint()):
            tag, size_offset = cursor.uvarint(), cursor.at
            size = cursor.uvarint()
            start = cursor.at
            cursor.skip(size)
            fields.append((tag, size_offset, start, cursor.at))
    return fields


def has_node_endpoints(frame: bytes, version: int) -> bool:
    """True if a Produce response carries broker addresses (KIP-951).

    :param frame: the response without its length.
    :param version: of the request that it answers.
    :raises ProtocolError: when it is malformed.
    """
    if version < FIRST_WITH_ENDPOINTS:
        return False
    return any(tag == _ENDPOINTS_TAG for tag, *_ in scan_produce_response(frame, version).tags)


def plain_response_length(topic: str) -> int:
    """Bytes of a response, its own length not counted, to a request for one partition of a topic.

    That of version 9 and later without any text or tagged field; with broker addresses it would be longer.
    """
    head, count, partition, no_text_and_tags, throttle, tags = 5, 1, 30, 4, 4, 1
    entry = len(write_string(topic, flexible=True)) + count + partition + no_text_and_tags
    return head + count + entry + throttle + tags


def node_endpoints(frame: bytes, version: int) -> Iterator[tuple[int, int, int]]:
    """Where NodeEndpoints stand in a Produce response: offset of the size, start and end of the value."""
    for tag, size_offset, start, end in scan_produce_response(frame, version).tags:
        if tag == _ENDPOINTS_TAG and version >= FIRST_WITH_ENDPOINTS:
            yield size_offset, start, end


def refusal_response(
    version: int, correlation_id: int, refused: Sequence[Refused], throttle_ms: int
) -> bytes:
    """The response to a Produce request that was refused as a whole.

    :param version: of the request.
    :param correlation_id: of the request.
    :param refused: what is refused, and why.
    :param throttle_ms: how long the client should pause.
    :return: a frame with its length.
    """
    return merge_produce_responses(version, correlation_id, (), refused, throttle_ms)


def unreadable_response(version: int, correlation_id: int) -> bytes:
    """A response that no client can read behind its header. Parameters and result as for `refusal_response`.

    It begins with more topics, and a longer name, than there are bytes.
    """
    return with_length([response_head(ApiKey.PRODUCE, version, correlation_id), b"\x7f" * 16])


def merge_produce_responses(
    version: int, correlation_id: int, frames: Sequence[bytes], refused: Sequence[Refused], throttle_ms: int
) -> bytes:
    """Merge the broker's responses to parts of a request with the refusals of the rest.

    :param version: of the request.
    :param correlation_id: of the request.
    :param frames: the broker's responses, without their lengths.
    :param refused: what is refused, and why.
    :param throttle_ms: how long the client should pause; the longest pause wins.
    :return: a frame with its length.
    :raises ProtocolError: when one of the frames is malformed.
    """
    flexible = version >= FIRST_FLEXIBLE
    parts: list[bytes | memoryview] = [response_head(ApiKey.PRODUCE, version, correlation_id)]
    scanned = [scan_produce_response(frame, version) for frame in frames]
    parts.append(write_array_length(sum(each.topic_count for each in scanned) + len(refused), flexible))
    for frame, each in zip(frames, scanned, strict=True):
        parts.append(memoryview(frame)[each.topics_start : each.topics_end])
    parts += [_refused_topic(version, flexible, each) for each in refused]
    parts.append(_pack_i32(max([throttle_ms, *(each.throttle_ms for each in scanned)])))
    if flexible:
        parts.append(_merged_tags(frames, scanned))
    return with_length(parts)


def _refused_topic(version: int, flexible: bool, refused: Refused) -> bytes:
    name, partitions, code, text = refused
    rest = b""
    if version >= _FIRST_WITH_MESSAGE:
        rest = write_array_length(0, flexible) + write_nullable_string(text, flexible)
    if flexible:
        rest += b"\0"
    fixed = 30 if version >= _FIRST_WITH_LOG_START else 22
    parts = [write_string(name, flexible), write_array_length(len(partitions), flexible)]
    parts += [_PARTITION.pack(index, code, -1, -1, -1)[:fixed] + rest for index in partitions]
    if flexible:
        parts.append(b"\0")
    return b"".join(parts)


def _merged_tags(frames: Sequence[bytes], scanned: Sequence[ProduceResponse]) -> bytes:
    """All tagged fields; broker addresses of several answers become one field."""
    endpoints: dict[int, bytes] = {}
    others: dict[int, bytes] = {}
    for frame, each in zip(frames, scanned, strict=True):
        for tag, _, start, end in each.tags:
            if tag == _ENDPOINTS_TAG:
                endpoints.update(_endpoints_by_node(frame, start))
            else:
                others.setdefault(tag, frame[start:end])
    fields = dict(sorted(others.items()))
    if endpoints:
        joined = write_array_length(len(endpoints), flexible=True) + b"".join(endpoints.values())
        fields = {_ENDPOINTS_TAG: joined, **fields}
    parts = [write_uvarint(len(fields))]
    for tag, value in fields.items():
        parts += [write_uvarint(tag), write_uvarint(len(value)), value]
    return b"".join(parts)


@guarded
def _endpoints_by_node(frame: bytes, start: int) -> dict[int, bytes]:
    """The entries of one NodeEndpoints field by node id."""
    cursor = Cursor(frame, start, flexible=True)
    entries: dict[int, bytes] = {}
    for _ in range(cursor.array_length()):
        entry = cursor.at
        node = cursor.i32()
        cursor.string()
        cursor.i32()
        cursor.nullable_string()
        cursor.tags()
        entries[node] = frame[entry : cursor.at]
    return entries
