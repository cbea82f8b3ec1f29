"""Fetch responses: found in place, rebuilt with some partitions cut short."""

import struct
from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from sluicegate_kafka.codec.api_keys import ApiKey, check_version
from sluicegate_kafka.codec.errors import ProtocolError
from sluicegate_kafka.codec.fetch_requests import FIRST_FLEXIBLE, FIRST_WITH_SESSION
from sluicegate_kafka.codec.frames import response_body
from sluicegate_kafka.codec.primitives import (
    MALFORMED,
    Cursor,
    read_uvarint,
    skip_tags,
    with_length,
    write_uvarint,
)
from sluicegate_kafka.codec.slices import ENTRIES_PER_SLICE, Slices

_FIRST_WITH_LOG_START = 5
_FIRST_WITH_PREFERRED = 11
_INDEX_ERROR = struct.Struct(">ih").unpack_from
_ABORTED_BYTES = 16
_i32 = struct.Struct(">i").unpack_from
_pack_i16 = struct.Struct(">h").pack
_pack_i32 = struct.Struct(">i").pack

Place: TypeAlias = tuple[int, int]
"""Place of a topic in the response, and of a partition in the topic."""


class FetchPartition(NamedTuple):
    """One partition of a Fetch response."""

    index: int  # type: ignore[assignment]  # hides tuple.index, which a partition does not need
    error: int
    records_start: int
    records_end: int
    """Equal to `records_start` when there are none, be it null or empty."""
    entry_start: int
    length_offset: int
    """Where the length of the records stands."""


class FetchTopic(NamedTuple):
    """One topic of a Fetch response."""

    name: str
    partitions: list[FetchPartition]


class FetchResponse(NamedTuple):
    """A Fetch response."""

    version: int
    error: int
    topics: list[FetchTopic]


def fetch_response_slices(frame: bytes, version: int) -> Slices[FetchResponse]:
    """Find the records in a Fetch response without copying them; yields between two slices.

    :param frame: the response without its length.
    :param version: of the request that it answers.
    :raises ProtocolError: when it is malformed, of another version, or does not end where its frame ends.
    """
    check_version(ApiKey.FETCH, version)
    try:
        cursor = response_body(frame, ApiKey.FETCH, version)
        cursor.i32()  # throttle time
        error = 0
        if version >= FIRST_WITH_SESSION:
            error = cursor.i16()
            cursor.i32()  # session id
        topics: list[FetchTopic] = []
        read = 0
        for _ in range(cursor.array_length()):
            name = cursor.string()
            count = cursor.array_length()
            partitions = _partitions(cursor, min(count, ENTRIES_PER_SLICE), version)
            while len(partitions) < count:
                yield
                partitions += _partitions(cursor, min(count - len(partitions), ENTRIES_PER_SLICE), version)
            cursor.tags()
            topics.append(FetchTopic(name, partitions))
            read += count + 1
            if read >= ENTRIES_PER_SLICE:
                read = 0
                yield
        cursor.tags()
    except MALFORMED as error_:
        raise ProtocolError(f"a truncated Fetch response: {error_}") from error_
    if cursor.at != len(frame):
        raise ProtocolError(f"a Fetch response of {cursor.at} bytes in a frame of {len(frame)}")
    return FetchResponse(version, error, topics)


def _partitions(cursor: Cursor, count: int, version: int) -> list[FetchPartition]:
    return _flexible(cursor, count) if cursor.flexible else _legacy(cursor, count, version)


def _flexible(cursor: Cursor, count: int) -> list[FetchPartition]:
    """Version 12. Offsets only grow, so the comparison at the end of the frame covers them all."""
    buffer, at = cursor.buffer, cursor.at
    partitions: list[FetchPartition] = []
    for _ in range(count):
        start = at
        index, error = _INDEX_ERROR(buffer, at)
        aborted, at = read_uvarint(buffer, at + 30)
        for _ in range(aborted - 1):
            at = skip_tags(buffer, at + _ABORTED_BYTES)
        length_offset = at + 4  # after the preferred read replica
        size, at = read_uvarint(buffer, length_offset)
        end = at + size - 1 if size else at
        partitions.append(FetchPartition(index, error, at, end, start, length_offset))
        at = skip_tags(buffer, end)
    cursor.at = at
    return partitions


def _legacy(cursor: Cursor, count: int, version: int) -> list[FetchPartition]:
    """Versions 4 to 11."""
    buffer, at = cursor.buffer, cursor.at
    fixed = 30 if version >= _FIRST_WITH_LOG_START else 22
    preferred = 4 if version >= _FIRST_WITH_PREFERRED else 0
    partitions: list[FetchPartition] = []
    for _ in range(count):
        start = at
        index, error = _INDEX_ERROR(buffer, at)
        (aborted,) = _i32(buffer, at + fixed)
        length_offset = at + fixed + 4 + max(aborted, 0) * _ABORTED_BYTES + preferred
        (size,) = _i32(buffer, length_offset)
        at = length_offset + 4 + max(size, 0)
        partitions.append(FetchPartition(index, error, length_offset + 4, at, start, length_offset))
    cursor.at = at
    return partitions


def rebuilding_slices(
    frame: bytes, response: FetchResponse, cuts: Mapping[Place, int], errors: Mapping[Place, int]
) -> Slices[bytes]:
    """A response with some partitions cut short, emptied, or replaced by errors.

    Yields between two slices.

    :param frame: the response without its length.
    :param response: what was found in it.
    :param cuts: for each partition to cut, the offset where its records end from now on; it should be the
        start of a batch. `records_start` empties the partition.
    :param errors: for each partition to refuse, the error code that takes the place of its records.
    :return: a frame with its length; every byte that no cut or error concerns is the same.
    :raises ProtocolError: when a cut is outside the records of its partition.
    """
    view = memoryview(frame)
    flexible = response.version >= FIRST_FLEXIBLE
    parts: list[bytes | memoryview] = []
    done = 0
    for count, place in enumerate(sorted({**cuts, **errors}), 1):
        if count % ENTRIES_PER_SLICE == 0:
            yield
        partition = response.topics[place[0]].partitions[place[1]]
        end = partition.records_start if place in errors else cuts[place]
        if not partition.records_start <= end <= partition.records_end:
            raise ProtocolError(f"a cut at byte {end}, outside the records of partition {partition.index}")
        if place in errors:
            error_offset = partition.entry_start + 4
            parts += [view[done:error_offset], _pack_i16(errors[place])]
            done = error_offset + 2
        elif end == partition.records_end:
            continue
        size = end - partition.records_start
        parts.append(view[done : partition.length_offset])
        parts.append(write_uvarint(size + 1) if flexible else _pack_i32(size))
        parts.append(view[partition.records_start : end])
        done = partition.records_end
    parts.append(view[done:])
    return with_length(parts)
