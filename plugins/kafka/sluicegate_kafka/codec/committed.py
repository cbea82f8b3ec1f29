"""Committed offsets of groups, from OffsetFetch."""

from collections.abc import Mapping
from typing import Final, TypeAlias

from sluicegate_kafka.codec.api_keys import ApiKey
from sluicegate_kafka.codec.frames import RequestHead, is_flexible, response_body
from sluicegate_kafka.codec.primitives import Cursor, guarded
from sluicegate_kafka.codec.slices import ENTRIES_PER_SLICE, Slices, guarded_slices

Offsets: TypeAlias = Mapping[tuple[str, int], int]
"""Committed offset by topic and partition."""

FIRST_OF_SEVERAL_GROUPS: Final = 8


@guarded
def offset_fetch_group(frame: bytes, head: RequestHead) -> str:
    """The group of an OffsetFetch request, versions 0 to 7; empty for later ones, whose responses name it.

    :raises ProtocolError: when it is malformed.
    """
    if head.version >= FIRST_OF_SEVERAL_GROUPS:
        return ""
    return Cursor(frame[: head.end], head.body, is_flexible(ApiKey.OFFSET_FETCH, head.version)).string()


@guarded_slices
def committed_offsets_slices(frame: bytes, version: int, group: str) -> Slices[Mapping[str, Offsets]]:
    """The offsets of each group in an OffsetFetch response, versions 0 to 9; yields between two slices.

    Partitions without one are left out: brokers name any that a client invents.

    :param frame: the response without its length.
    :param version: of the request that it answers.
    :param group: the group of the request, if the response does not name it.
    :raises ProtocolError: when it is malformed.
    """
    cursor = response_body(frame, ApiKey.OFFSET_FETCH, version)
    if version >= 3:
        cursor.i32()  # throttle time
    if version < FIRST_OF_SEVERAL_GROUPS:
        offsets, _ = yield from _topics(cursor, version, 0)
        return {group: offsets}
    by_group: dict[str, Offsets] = {}
    read = 0
    for _ in range(cursor.array_length()):
        name = cursor.string()
        read += 1
        if read % ENTRIES_PER_SLICE == 0:
            yield
        by_group[name], read = yield from _topics(cursor, version, read)
        cursor.i16()  # error
        cursor.tags()
    return by_group


def _topics(cursor: Cursor, version: int, read: int) -> Slices[tuple[Offsets, int]]:
    """The offsets of one group, and how many entries were read with it; `read` were before it."""
    offsets: dict[tuple[str, int], int] = {}
    for _ in range(cursor.array_length()):
        topic = cursor.string()
        read += 1
        if read % ENTRIES_PER_SLICE == 0:
            yield
        for _ in range(cursor.array_length()):
            index, offset = cursor.i32(), cursor.i64()
            if version >= 5:
                cursor.i32()  # leader epoch
            cursor.nullable_string()  # metadata
            if cursor.i16() == 0 and offset >= 0:
                offsets[topic, index] = offset
            cursor.tags()
            read += 1
            if read % ENTRIES_PER_SLICE == 0:
                yield
        cursor.tags()
    return offsets, read
