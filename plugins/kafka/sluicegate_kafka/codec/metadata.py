"""Metadata requests that may create topics, and which topics their responses do not know."""

import struct
from collections.abc import Sequence
from typing import NamedTuple

from sluicegate_kafka.codec.api_keys import ApiKey
from sluicegate_kafka.codec.errors import UNKNOWN_TOPIC_OR_PARTITION
from sluicegate_kafka.codec.frames import RequestHead, is_flexible, response_body
from sluicegate_kafka.codec.layouts import Reader
from sluicegate_kafka.codec.primitives import Cursor, with_length, write_array_length, write_string
from sluicegate_kafka.codec.slices import Slices

FIRST_ASKING = 4
"""The first version that says whether missing topics are to be created; brokers create them before it."""
_REQUEST = Reader("topics* ?[id 10+ uuid, name* string?], creates_at 4+ @, creates* 4+ i8")
_BROKERS = "throttle_ms 3+ i32, brokers [node i32, host string, port i32, rack 1+ string?]"
_RESPONSE = Reader(
    f"{_BROKERS}, cluster 2+ string?, controller 1+ i32, "
    "topics* [error* i16, name* string?, id 10+ uuid, internal 1+ i8, partitions [error i16, index i32, "
    "leader i32, epoch 7+ i32, replicas i32s, in_sync i32s, offline 5+ i32s], rights 8+ i32]"
)
_CLUSTER = Reader(f"{_BROKERS}, start @, cluster string?, end @")
_HEAD = struct.Struct(">hhi")
_CORRELATION_BYTES = 4
_THROTTLE_BYTES = 4


class MetadataRequest(NamedTuple):
    """What a Metadata request asks for."""

    topics: list[str]
    """Their names; none if it asks for all topics, for none, or by id."""
    creates: bool
    """Whether brokers may create the topics that are missing."""
    creates_at: int | None
    """Where the request says so; None in versions that do not say it."""


def metadata_request_slices(frame: bytes, head: RequestHead) -> Slices[MetadataRequest]:
    """Read a Metadata request; yields between two slices.

    :raises ProtocolError: when it is malformed.
    """
    cursor = Cursor(frame[: head.end], head.body, is_flexible(ApiKey.METADATA, head.version))
    names, creates_at, creates = yield from _REQUEST.slices(cursor, head.version)
    return MetadataRequest([name for name in names if name is not None], creates != 0, creates_at)


def without_creating(frame: bytes, head: RequestHead, request: MetadataRequest) -> bytes:
    """The same request, by which no topic is created; a frame with its length.

    One of an older version becomes one of version `FIRST_ASKING`.
    """
    if request.creates_at is None:
        return named_metadata(request.topics, head.client_id, head.correlation_id, creates=False)
    view, at = memoryview(frame), request.creates_at
    return with_length([view[head.start : at], b"\0", view[at + 1 : head.end]])


def named_metadata(topics: Sequence[str], client_id: str, correlation_id: int, *, creates: bool) -> bytes:
    """A Metadata request of version `FIRST_ASKING`; a frame with its length.

    :param topics: names of the topics that it asks for.
    :param client_id: of the client.
    :param correlation_id: of the request.
    :param creates: whether brokers may create what is missing.
    """
    head = _HEAD.pack(ApiKey.METADATA, FIRST_ASKING, correlation_id) + write_string(client_id, flexible=False)
    names = b"".join(write_string(topic, flexible=False) for topic in topics)
    length = write_array_length(len(topics), flexible=False)
    return with_length([head, length, names, b"\1" if creates else b"\0"])


def unknown_topics_slices(frame: bytes, version: int) -> Slices[list[str]]:
    """The topics that a Metadata response does not know; yields between two slices.

    :param frame: the response without its length.
    :param version: of the request.
    :raises ProtocolError: when it is malformed.
    """
    cursor = response_body(frame, ApiKey.METADATA, version)
    (topics,) = yield from _RESPONSE.slices(cursor, version, topics=_unknown)
    return list(topics)


def _unknown(error: int, name: str | None) -> str | None:
    return name if error == UNKNOWN_TOPIC_OR_PARTITION else None


def as_older(frame: bytes, version: int) -> bytes:
    """A Metadata response of version `FIRST_ASKING` as one of version 1 to 3.

    :param frame: the response without its length.
    :raises ProtocolError: when it is malformed.
    """
    if version >= 3:
        return frame
    body = _CORRELATION_BYTES + _THROTTLE_BYTES
    if version == 2:
        return frame[:_CORRELATION_BYTES] + frame[body:]
    start, end = _CLUSTER.read(response_body(frame, ApiKey.METADATA, FIRST_ASKING), FIRST_ASKING)
    return frame[:_CORRELATION_BYTES] + frame[body:start] + frame[end:]
