"""Fetch requests, read in place."""

import struct
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, TypeAlias, TypeVar

from sluicegate_kafka.codec.api_keys import READ, ApiKey, check_version
from sluicegate_kafka.codec.errors import ProtocolError
from sluicegate_kafka.codec.frames import RequestHead
from sluicegate_kafka.codec.primitives import MALFORMED, Cursor, skip_tags
from sluicegate_kafka.codec.slices import ENTRIES_PER_SLICE, Slices

FIRST_FLEXIBLE: Final = READ[ApiKey.FETCH].first_flexible
FIRST_WITH_SESSION: Final = 7

MAX_ENTRIES: Final = 1_000_000
"""Partitions in one request; more would cost far more memory than they take on the wire."""

Entry = TypeVar("Entry")
FetchTopics: TypeAlias = list[tuple[str, list[tuple[int, int]]]]
"""Topics with pairs of partition and fetch offset."""

_MAX_WAIT = struct.Struct(">4xi").unpack_from
_LIMIT_BYTES = 17
"""Replica id, longest wait, least and most bytes, isolation level."""

# partition, leader epoch (9+), offset, last fetched epoch (12+), log start offset (5+), max bytes
_PARTITION_BY_VERSION = tuple(
    struct.Struct(
        ">i"
        + ("4x" if version >= 9 else "")
        + "q"
        + ("4x" if version >= 12 else "")
        + ("8x" if version >= 5 else "")
        + "4x"
    )
    for version in range(READ[ApiKey.FETCH].highest + 1)
)


class FetchRequest(NamedTuple):
    """A Fetch request."""

    max_wait_ms: int
    session_epoch: int
    """-1 without a session; versions before 7 have none."""
    topics: FetchTopics
    forgotten: list[tuple[str, list[int]]]
    """What an incremental request takes out of its session."""


def fetch_request_slices(frame: bytes, head: RequestHead) -> Slices[FetchRequest]:
    """Read a Fetch request; yields between two slices.

    :param frame: the buffer that the head was read from.
    :param head: the request's header.
    :raises ProtocolError: when it is malformed, of another version, or does not end where its frame ends.
    """
    version = head.version
    check_version(ApiKey.FETCH, version)
    try:
        (max_wait_ms,) = _MAX_WAIT(frame, head.body)
        cursor = Cursor(frame, head.body + _LIMIT_BYTES, version >= FIRST_FLEXIBLE)
        session_epoch = -1
        if version >= FIRST_WITH_SESSION:
            cursor.i32()  # session id
            session_epoch = cursor.i32()
        topics = yield from _by_topic(cursor, partial(_partitions, cursor, _PARTITION_BY_VERSION[version]))
        forgotten: list[tuple[str, list[int]]] = []
        if version >= FIRST_WITH_SESSION:
            forgotten = yield from _by_topic(cursor, lambda count: list(cursor.i32s(count)))
        if version >= 11:
            cursor.string()  # rack
        cursor.tags()
    except MALFORMED as error:
        raise ProtocolError(f"a truncated Fetch request: {error}") from error
    if cursor.at != head.end:
        raise ProtocolError(f"a Fetch request of {cursor.at - head.start} bytes in {head.end - head.start}")
    return FetchRequest(max_wait_ms, session_epoch, topics, forgotten)


def _by_topic(cursor: Cursor, read: Callable[[int], list[Entry]]) -> Slices[list[tuple[str, list[Entry]]]]:
    """Topics with what stands of each of their partitions.

    :param read: reads so many partitions on.
    """
    topics: list[tuple[str, list[Entry]]] = []
    left, done = MAX_ENTRIES, 0
    for _ in range(cursor.array_length()):
        name = cursor.string()
        count = cursor.array_length()
        left -= count + 1
        if left < 0:
            raise ProtocolError(f"more than {MAX_ENTRIES} partitions in a Fetch request")
        partitions = read(min(count, ENTRIES_PER_SLICE))
        while len(partitions) < count:
            yield
            partitions += read(min(count - len(partitions), ENTRIES_PER_SLICE))
        topics.append((name, partitions))
        cursor.tags()
        done += count + 1
        if done >= ENTRIES_PER_SLICE:
            done = 0
            yield
    return topics


def _partitions(cursor: Cursor, partition: struct.Struct, count: int) -> list[tuple[int, int]]:
    buffer, at, size = cursor.buffer, cursor.at, partition.size
    if not cursor.flexible:
        cursor.skip(count * size)
        return list(partition.iter_unpack(memoryview(buffer)[at : cursor.at]))
    unpack = partition.unpack_from
    partitions: list[tuple[int, int]] = []
    for _ in range(count):
        index, offset = unpack(buffer, at)
        partitions.append((index, offset))
        at += size
        at = at + 1 if buffer[at] == 0 else skip_tags(buffer, at)
    cursor.at = at
    return partitions
