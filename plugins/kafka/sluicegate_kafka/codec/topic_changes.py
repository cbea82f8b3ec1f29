"""CreateTopics and CreatePartitions: their topics, requests with some of them, and refusals."""

import struct
from collections.abc import Iterable
from typing import NamedTuple

from sluicegate_kafka.codec.api_keys import ApiKey
from sluicegate_kafka.codec.frames import RequestHead, is_flexible, response_body, response_head
from sluicegate_kafka.codec.layouts import Reader
from sluicegate_kafka.codec.primitives import (
    Cursor,
    guarded,
    with_length,
    write_array_length,
    write_nullable_string,
    write_string,
)
from sluicegate_kafka.codec.slices import Slices

_CREATING = Reader(
    "topics_at @, topics* [start @, name* string, partitions* i32, replicas i16, "
    "assigned* [index* i32, brokers i32s], configs [name string, value string?]]@"
)
_ENLARGING = Reader(
    "topics_at @, topics* [start @, name* string, partitions* i32, assigned ?[brokers i32s]]@"
)
_FIRST_THROTTLED = 2
_FIRST_WITH_TEXT = 1
_FIRST_WITH_ID = 7
_NO_DETAILS = b"\xff\xff\xff\xff" + b"\xff\xff" + b"\0"
"""Partitions and replicas of a topic that is not created, and null for its configuration."""
_i16 = struct.Struct(">h").pack


class ChangedTopic(NamedTuple):
    """A topic to create, or one that gets more partitions."""

    name: str
    partitions: int
    """How many it will have; 0 for the broker's default."""
    start: int
    """Where its entry starts in the request."""
    end: int


class TopicChanges(NamedTuple):
    """A CreateTopics or CreatePartitions request."""

    frame: bytes
    head: RequestHead
    topics: list[ChangedTopic]
    topics_at: int
    """Where the list of topics starts."""
    topics_end: int


class RefusedTopic(NamedTuple):
    """A topic that the gateway refuses to create or to enlarge."""

    name: str
    code: int
    text: str


def topic_changes_slices(frame: bytes, head: RequestHead) -> Slices[TopicChanges]:
    """Read a CreateTopics or CreatePartitions request; yields between two slices.

    :raises ProtocolError: when it is malformed.
    """
    cursor = Cursor(frame[: head.end], head.body, is_flexible(head.api_key, head.version))
    if head.api_key == ApiKey.CREATE_TOPICS:
        at, topics = yield from _CREATING.slices(cursor, head.version, topics=_created)
    else:
        at, topics = yield from _ENLARGING.slices(cursor, head.version, topics=_enlarged)
    return TopicChanges(cursor.buffer, head, topics, at, cursor.at)


def _created(start: int, name: str, partitions: int, assigned: list[int], end: int) -> ChangedTopic:
    return ChangedTopic(name, len(assigned) or max(0, partitions), start, end)


def _enlarged(start: int, name: str, partitions: int, end: int) -> ChangedTopic:
    return ChangedTopic(name, partitions, start, end)


def subset_changes(request: TopicChanges, keep: Iterable[ChangedTopic]) -> bytes:
    """The same request with only some of its topics; a frame with its length."""
    view, head = memoryview(request.frame), request.head
    entries = [view[topic.start : topic.end] for topic in keep]
    count = write_array_length(len(entries), is_flexible(head.api_key, head.version))
    return with_length(
        [view[head.start : request.topics_at], count, *entries, view[request.topics_end : head.end]]
    )


def refuse_changes(head: RequestHead, refused: Iterable[RefusedTopic]) -> bytes:
    """The response to a request of which every topic is refused; a frame with its length."""
    flexible = is_flexible(head.api_key, head.version)
    entries = [_entry(head, topic) for topic in refused]
    return with_length(
        [
            response_head(head.api_key, head.version, head.correlation_id),
            bytes(_throttle_bytes(head)),
            write_array_length(len(entries), flexible),
            *entries,
            b"\0" if flexible else b"",
        ]
    )


@guarded
def with_refused_changes(frame: bytes, head: RequestHead, refused: Iterable[RefusedTopic]) -> bytes:
    """The broker's response with more topics, which the gateway refused.

    :param frame: the response without its length.
    :param head: of the request.
    :return: a frame with its length.
    :raises ProtocolError: when it is malformed.
    """
    cursor = response_body(frame, head.api_key, head.version)
    cursor.skip(_throttle_bytes(head))
    at = cursor.at
    count = cursor.array_length()
    entries = [_entry(head, topic) for topic in refused]
    length = write_array_length(count + len(entries), cursor.flexible)
    return with_length([frame[:at], length, *entries, frame[cursor.at :]])


def _throttle_bytes(head: RequestHead) -> int:
    return 4 if head.api_key != ApiKey.CREATE_TOPICS or head.version >= _FIRST_THROTTLED else 0


def _entry(head: RequestHead, topic: RefusedTopic) -> bytes:
    flexible, is_creation = is_flexible(head.api_key, head.version), head.api_key == ApiKey.CREATE_TOPICS
    parts = [write_string(topic.name, flexible)]
    if is_creation and head.version >= _FIRST_WITH_ID:
        parts.append(bytes(16))
    parts.append(_i16(topic.code))
    if not is_creation or head.version >= _FIRST_WITH_TEXT:
        parts.append(write_nullable_string(topic.text, flexible))
    if flexible:
        parts += (_NO_DETAILS, b"\0") if is_creation else (b"\0",)
    return b"".join(parts)
