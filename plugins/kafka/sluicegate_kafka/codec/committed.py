"""Committed offsets of groups, from OffsetFetch."""

from collections.abc import Mapping
from typing import Final, TypeAlias

from sluicegate_kafka.codec.api_keys import ApiKey
from sluicegate_kafka.codec.frames import RequestHead, is_flexible, response_body
from sluicegate_kafka.codec.layouts import Reader
from sluicegate_kafka.codec.primitives import Cursor, guarded
from sluicegate_kafka.codec.slices import Slices

Offsets: TypeAlias = Mapping[tuple[str, int], int]
"""Committed offset by topic and partition."""

FIRST_OF_SEVERAL_GROUPS: Final = 8
_TOPICS = "[topic* string, partitions* [index* i32, offset* i64, epoch 5+ i32, metadata string?, error* i16]]"
_OFFSETS = Reader(
    f"throttle_ms 3+ i32, topics 0-7 {_TOPICS}, groups 8+ [group* string, topics {_TOPICS}, error i16]"
)


@guarded
def offset_fetch_group(frame: bytes, head: RequestHead) -> str:
    """The group of an OffsetFetch request, versions 0 to 7; empty for later ones, whose responses name it.

    :raises ProtocolError: when it is malformed.
    """
    if head.version >= FIRST_OF_SEVERAL_GROUPS:
        return ""
    return Cursor(frame[: head.end], head.body, is_flexible(ApiKey.OFFSET_FETCH, head.version)).string()


def committed_offsets_slices(frame: bytes, version: int, group: str) -> Slices[Mapping[str, Offsets]]:
    """The offsets of each group in an OffsetFetch response, versions 0 to 9; yields between two slices.

    Partitions without one are left out: brokers name any that a client invents.

    :param frame: the response without its length.
    :param version: of the request that it answers.
    :param group: the group of the request, if the response does not name it.
    :raises ProtocolError: when it is malformed.
    """
    by_group: dict[str, Offsets] = {}
    offsets: dict[tuple[str, int], int] = {}

    def add_topic(topic: str, stored: list[tuple[int, int]]) -> None:
        offsets.update(((topic, index), offset) for index, offset in stored)

    def add_group(name: str) -> None:
        nonlocal offsets
        by_group[name], offsets = offsets, {}

    cursor = response_body(frame, ApiKey.OFFSET_FETCH, version)
    yield from _OFFSETS.slices(cursor, version, partitions=_stored, topics=add_topic, groups=add_group)
    return {group: offsets} if version < FIRST_OF_SEVERAL_GROUPS else by_group


def _stored(index: int, offset: int, error: int) -> tuple[int, int] | None:
    return (index, offset) if error == 0 and offset >= 0 else None
