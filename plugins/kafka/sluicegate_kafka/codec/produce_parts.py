"""Produce requests with only some of their topics, or with other batches."""

import struct
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from sluicegate_kafka.codec.primitives import skip_tags, with_length, write_array_length, write_uvarint
from sluicegate_kafka.codec.produce_requests import (
    FIRST_FLEXIBLE,
    ProduceRequest,
    ProduceTopic,
    flexible_name,
)

_UNCHANGED: Final[Mapping[int, Sequence[bytes]]] = MappingProxyType({})
_NAME_BYTES = 2
_COUNT_BYTES = 4
_INDEX_BYTES = 4
_i16 = struct.Struct(">h").unpack_from
_pack_i32 = struct.Struct(">i").pack


def subset_produce(
    request: ProduceRequest, keep: Sequence[int], changed: Mapping[int, Sequence[bytes]] = _UNCHANGED
) -> bytes:
    """The same request with only some of its topics.

    :param keep: places of the topics to keep.
    :param changed: other batches, one for each partition of a topic, by the topic's place.
    :return: a frame with its length.
    """
    view, head = memoryview(request.frame), request.head
    is_flexible = head.version >= FIRST_FLEXIBLE
    parts: list[bytes | memoryview] = [
        view[head.start : request.topics_offset],
        write_array_length(len(keep), is_flexible),
    ]
    for place in keep:
        topic = request.topics[place]
        if place in changed:
            parts += _changed_topic(topic, changed[place], is_flexible)
        else:
            parts.append(view[topic.start : topic.end])
    return with_length([*parts, view[request.topics_end : head.end]])


def _changed_topic(
    topic: ProduceTopic, records: Sequence[bytes], is_flexible: bool
) -> list[bytes | memoryview]:
    """A topic's entry with other batches."""
    frame, view = topic.frame, memoryview(topic.frame)
    if is_flexible:
        _, _, at = flexible_name(frame, topic.start)
    else:
        at = topic.start + _NAME_BYTES + _i16(frame, topic.start)[0] + _COUNT_BYTES
    parts: list[bytes | memoryview] = []
    done = topic.start
    for (_, end), new in zip(topic.records, records, strict=True):
        size = write_uvarint(len(new) + 1) if is_flexible else _pack_i32(len(new))
        parts += (view[done : at + _INDEX_BYTES], size, new)
        done = end
        at = skip_tags(frame, end) if is_flexible else end
    return [*parts, view[done : topic.end]]
