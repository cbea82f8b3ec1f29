"""Produce requests, read in place: this is the hot path."""

import struct
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

from sluicegate_kafka.codec.api_keys import READ, ApiKey, check_version
from sluicegate_kafka.codec.errors import ProtocolError
from sluicegate_kafka.codec.frames import RequestHead
from sluicegate_kafka.codec.primitives import (
    MALFORMED,
    read_uvarint,
    skip_tags,
)
from sluicegate_kafka.codec.records import LOG_OVERHEAD, MAGIC, MAX_BATCHES, batch_payload_size, walk_batches
from sluicegate_kafka.codec.slices import ENTRIES_PER_SLICE, Slices, at_once

_, _HIGHEST, FIRST_FLEXIBLE = READ[ApiKey.PRODUCE]

MAX_ENTRIES: Final = 20_000
"""Topics, and partitions of all topics, in one request. Clients send 1 MiB unless told otherwise, in which
there is room for 14,000 batches."""

_ACKS = struct.Struct(">h4x").unpack_from
"""The time-out behind it is skipped."""
_i16 = struct.Struct(">h").unpack_from
_i32 = struct.Struct(">i").unpack_from
_measured = struct.Struct(">8xi4xb18xqq6xi").unpack_from
"""Of a batch: length, magic, max timestamp, producer id, record count."""
_INDEX_SIZE = struct.Struct(">ii").unpack_from
_ONE = 2
"""A compact array's length field where it has one element."""
_TAGS = 3
"""Bytes of empty tagged fields behind the only batch: of the partition, the topic and the request."""


class Inspected(NamedTuple):
    """What the compressed batches of one topic hold."""

    largest: int
    """Bytes of key, value and headers of the largest message."""
    problem: str
    """Why a batch could not be unpacked, or is not what its header says; empty if all is well."""


class ProduceTopic(NamedTuple):
    """One topic of a Produce request."""

    frame: bytes
    """The buffer that all offsets refer to."""
    name: str
    start: int
    """Offset of the topic's entry."""
    end: int
    """Offset after the topic's entry."""
    partitions: list[int]
    messages: int
    """Records in all its partitions, as the batch headers say."""
    bytes: int
    """Bytes of its batches, headers included."""
    largest_batch: int
    """Payload bytes of its largest batch."""
    max_timestamp: int
    """Latest timestamp of its batches, ms since the epoch; -1 for none."""
    producer_id: int
    """Producer id of the first batch of the first partition that has one; -1 for none."""
    records: list[tuple[int, int]]
    """Where the batches of each partition start and end."""
    more_producers: tuple[int, ...]
    """Producer ids of further producers with batches in it; -1 for those without an id."""
    inspected: Inspected | None
    """How large its messages are; None where that was not measured."""
    contents: Any
    """What policies have read of its messages; None where none does."""


class ProduceRequest(NamedTuple):
    """A Produce request."""

    frame: bytes
    """The buffer that it was read from, to which all offsets refer."""
    head: RequestHead
    acks: int
    topics: list[ProduceTopic]
    topics_offset: int
    """Where the length of the topic array stands."""
    topics_end: int
    """Offset after the last topic."""


# Half the time of calls with so many arguments.
_topic_of = partial(tuple.__new__, ProduceTopic)
_request_of = partial(tuple.__new__, ProduceRequest)


def scan_produce(frame: bytes, head: RequestHead) -> ProduceRequest:
    """Read a Produce request at once, without slices; parameters and errors as for `scan_slices`."""
    return at_once(scan_slices(frame, head))


def scan_slices(frame: bytes, head: RequestHead) -> Slices[ProduceRequest]:
    """Read a Produce request without copying its records, in slices if it names many topics or partitions.

    :param frame: the buffer that the head was read from.
    :param head: the request's header.
    :return: a generator that yields between two slices.
    :raises ProtocolError: when it is malformed, of another version, or does not end where its frame ends.
    """
    check_version(ApiKey.PRODUCE, head.version)
    try:
        is_flexible = head.version >= FIRST_FLEXIBLE
        return (yield from (_scan_flexible if is_flexible else _scan_legacy)(frame, head))
    except MALFORMED as error:
        raise ProtocolError(f"a truncated Produce request: {error}") from error


def _scan_flexible(frame: bytes, head: RequestHead) -> Slices[ProduceRequest]:
    """Versions 9 to 12.

    Offsets only grow, so comparing the last one with the frame's end covers all of them.
    """
    acks, topics_offset, count, at = _flexible_start(frame, head)
    if not 0 < count <= MAX_ENTRIES:
        raise ProtocolError(f"{count - 1} topics in a Produce request")
    topics: list[ProduceTopic] = []
    left, read = MAX_ENTRIES, 0
    for _ in range(count - 1):
        if read >= ENTRIES_PER_SLICE:
            read = 0
            yield
        topic = _flexible_topic(frame, at)
        if topic is None:
            topic = yield from _flexible_many(frame, at, left)
        topics.append(topic)
        left -= len(topic.partitions)
        read += 1 + len(topic.partitions)
        at = topic.end
    return _whole(frame, head, acks, topics_offset, topics, at)


def scan_plain(frame: bytes, head: RequestHead) -> ProduceRequest | None:
    """Read a Produce request for one partition in one of the newer versions, as most are; None for any other.

    :param frame: the buffer that the head was read from.
    :param head: the request's header.
    :raises ProtocolError: when it is malformed, or does not end where its frame ends.
    """
    if not FIRST_FLEXIBLE <= head.version <= _HIGHEST:
        return None
    try:
        acks, topics_offset, count, at = _flexible_start(frame, head)
        if count != 2 or (topic := _flexible_topic(frame, at)) is None:
            return None
        end = topic.end
        if frame[end] == 0 and end + 1 == head.end:  # as in `_whole`, without the call
            return _request_of((frame, head, acks, [topic], topics_offset, end))
        return _whole(frame, head, acks, topics_offset, [topic], end)
    except MALFORMED as error:
        raise ProtocolError(f"a truncated Produce request: {error}") from error


def _flexible_start(frame: bytes, head: RequestHead) -> tuple[int, int, int, int]:
    """Acks, where the length of the topics stands, the number of topics plus one, and where they begin."""
    at = head.body
    size = frame[at]
    at += 1
    if size:  # transactional id
        if size > 127:
            size, at = read_uvarint(frame, at - 1)
        at += size - 1
    (acks,) = _ACKS(frame, at)
    topics_offset = at = at + 6
    count = frame[at]
    at += 1
    if count > 127:
        count, at = read_uvarint(frame, at - 1)
    return acks, topics_offset, count, at


def _whole(
    frame: bytes,
    head: RequestHead,
    acks: int,
    topics_offset: int,
    topics: list[ProduceTopic],
    topics_end: int,
) -> ProduceRequest:
    """The request, if it ends behind its topics."""
    at = topics_end + 1 if frame[topics_end] == 0 else skip_tags(frame, topics_end)
    if at != head.end:
        raise ProtocolError(f"a Produce request of {at - head.start} bytes in {head.end - head.start}")
    return _request_of((frame, head, acks, topics, topics_offset, topics_end))


def flexible_name(frame: bytes, start: int) -> tuple[str, int, int]:
    """A topic's name, the number of its partitions plus one, and where these begin."""
    size = frame[start]
    at = start + 1
    if size > 127:
        size, at = read_uvarint(frame, start)
    if size == 0:
        raise ProtocolError("a topic without a name")
    name = str(frame[at : at + size - 1], "utf-8")
    at += size - 1
    count = frame[at]
    at += 1
    if count > 127:
        count, at = read_uvarint(frame, at - 1)
    return name, count, at


def _flexible_topic(frame: bytes, start: int) -> ProduceTopic | None:
    """A topic with one partition, as most requests have; None for others."""
    name, count, at = flexible_name(frame, start)
    if count != 2:
        return None
    (index,) = _i32(frame, at)
    size = frame[at + 4]
    at += 5
    if size > 127:
        size, at = read_uvarint(frame, at - 1)
    end = at + size - 1 if size else at
    messages, largest, timestamp, producer = measure_records(frame, at, end)
    after = end + 2 if frame[end] == 0 == frame[end + 1] else skip_tags(frame, skip_tags(frame, end))
    return _topic_of(
        (
            frame,
            name,
            start,
            after,
            [index],
            messages,
            end - at,
            largest,
            timestamp,
            producer,
            [(at, end)],
            (),
            None,
            None,
        )
    )


def _flexible_many(frame: bytes, start: int, most: int) -> Slices[ProduceTopic]:
    """A topic with none or several partitions."""
    name, count, at = flexible_name(frame, start)
    if not 0 < count <= most:
        raise ProtocolError(f"{count - 1} partitions in a topic of a Produce request")
    partitions: list[int] = []
    records: list[tuple[int, int]] = []
    for number in range(count - 1):
        if number % ENTRIES_PER_SLICE == ENTRIES_PER_SLICE - 1:
            yield
        (index,) = _i32(frame, at)
        size, at = read_uvarint(frame, at + 4)
        end = at + size - 1 if size else at
        partitions.append(index)
        records.append((at, end))
        at = skip_tags(frame, end)
    return (yield from _topic(frame, name, start, skip_tags(frame, at), partitions, records))


def _topic(
    frame: bytes, name: str, start: int, end: int, partitions: list[int], records: list[tuple[int, int]]
) -> Slices[ProduceTopic]:
    """Add up the partitions of a topic."""
    messages = nbytes = largest = 0
    timestamp = producer = -1
    producers: dict[int, None] = {}
    for number, (first, last) in enumerate(records):
        if number % ENTRIES_PER_SLICE == ENTRIES_PER_SLICE - 1:
            yield
        count, size, latest, producer_id = measure_records(frame, first, last)
        messages += count
        nbytes += last - first
        largest = max(largest, size)
        timestamp = max(timestamp, latest)
        if last > first:
            producers[producer_id] = None
        if producer < 0:
            producer = producer_id
    producers.pop(producer, None)
    more = tuple(producers)
    return ProduceTopic(
        frame,
        name,
        start,
        end,
        partitions,
        messages,
        nbytes,
        largest,
        timestamp,
        producer,
        records,
        more,
        None,
        None,
    )


def _scan_legacy(frame: bytes, head: RequestHead) -> Slices[ProduceRequest]:
    """Versions 3 to 8."""
    at = head.body
    (size,) = _i16(frame, at)
    at += 2
    at += max(size, 0)  # transactional id
    (acks,) = _ACKS(frame, at)
    topics_offset = at = at + 6
    (count,) = _i32(frame, at)
    at += 4
    if not 0 <= count < MAX_ENTRIES:
        raise ProtocolError(f"{count} topics in a Produce request")
    topics: list[ProduceTopic] = []
    left, read = MAX_ENTRIES, 0
    for _ in range(count):
        if read >= ENTRIES_PER_SLICE:
            read = 0
            yield
        topic = yield from _legacy_topic(frame, at, left)
        topics.append(topic)
        left -= len(topic.partitions)
        read += 1 + len(topic.partitions)
        at = topic.end
    if at != head.end:
        raise ProtocolError(f"a Produce request of {at - head.start} bytes in {head.end - head.start}")
    return ProduceRequest(frame, head, acks, topics, topics_offset, at)


def _legacy_topic(frame: bytes, start: int, most: int) -> Slices[ProduceTopic]:
    (size,) = _i16(frame, start)
    if size < 0:
        raise ProtocolError("a topic without a name")
    at = start + 2 + size
    name = str(frame[start + 2 : at], "utf-8")
    (count,) = _i32(frame, at)
    at += 4
    if not 0 <= count < most:
        raise ProtocolError(f"{count} partitions in a topic of a Produce request")
    partitions: list[int] = []
    records: list[tuple[int, int]] = []
    for number in range(count):
        if number % ENTRIES_PER_SLICE == ENTRIES_PER_SLICE - 1:
            yield
        index, size = _INDEX_SIZE(frame, at)
        at += 8
        end = at + max(size, 0)
        partitions.append(index)
        records.append((at, end))
        at = end
    return (yield from _topic(frame, name, start, at, partitions, records))


def scan_start(frame: bytes, head: RequestHead) -> ProduceRequest | None:
    """Read a Produce request of which only the start has arrived, if it is one batch for one partition.

    Such a request says all about itself in front of its records. librdkafka sends no others, and the Java
    client none where a batch is about as large as its requests may be.

    :param frame: a buffer that holds the start; offsets of what is missing point behind its end.
    :param head: the request's header.
    :return: None for any other request, also a malformed one, and where the header of the batch is missing.
    """
    try:
        is_flexible = head.version >= FIRST_FLEXIBLE
        start = (_flexible_batch if is_flexible else _legacy_batch)(frame, head)
        if start is None:
            return None
        acks, topics_offset, topic, name, index, at, end = start
        length, magic, timestamp, producer, messages = _measured(frame, at)
    except MALFORMED:
        return None
    nbytes, tags = end - at, _TAGS if is_flexible else 0
    # As in `measure_records`. What is left of the frame has room for empty tagged fields only.
    if (
        length + LOG_OVERHEAD != nbytes
        or magic != MAGIC
        or messages < 0
        or length < 49
        or end + tags != head.end
    ):
        return None
    records, largest, after = [(at, end)], length - 49, end + tags - bool(tags)
    fields = (frame, name, topic, after, [index], messages, nbytes, largest, timestamp, producer, records)
    return _request_of((frame, head, acks, [_topic_of((*fields, (), None, None))], topics_offset, after))


_Start: TypeAlias = tuple[int, int, int, str, int, int, int]
"""Acks; where the length of the topics stands, and the topic; its name; the partition; where its batch is."""


def _flexible_batch(frame: bytes, head: RequestHead) -> _Start | None:
    acks, topics_offset, topics, topic = _flexible_start(frame, head)
    name, partitions, at = flexible_name(frame, topic)
    if topics != _ONE or partitions != _ONE:
        return None
    (index,) = _i32(frame, at)
    size, at = read_uvarint(frame, at + 4)
    return acks, topics_offset, topic, name, index, at, at + size - 1


def _legacy_batch(frame: bytes, head: RequestHead) -> _Start | None:
    (size,) = _i16(frame, head.body)
    topics_offset = head.body + 8 + max(size, 0)
    (acks,) = _ACKS(frame, topics_offset - 6)
    (topics,) = _i32(frame, topics_offset)
    topic = topics_offset + 4
    (size,) = _i16(frame, topic)
    at = topic + 2 + size
    (partitions,) = _i32(frame, at)
    index, nbytes = _INDEX_SIZE(frame, at + 4)
    if size < 0 or topics != 1 or partitions != 1:
        return None
    return acks, topics_offset, topic, str(frame[topic + 2 : at], "utf-8"), index, at + 12, at + 12 + nbytes


def measure_records(buffer: bytes, start: int, end: int) -> tuple[int, int, int, int]:
    """What one partition of a Produce request holds.

    :return: records, payload bytes of the largest batch, the latest timestamp (ms; -1 for none), and the
        producer id of the first batch (-1 for none).
    :raises ProtocolError: when batches do not fill the record set exactly.
    :raises struct.error: when the buffer ends inside a header.
    """
    if start == end:
        return 0, 0, -1, -1
    length, magic, timestamp, producer, count = _measured(buffer, start)
    if length + LOG_OVERHEAD == end - start and magic == MAGIC and count >= 0 and length >= 49:
        return count, length - 49, timestamp, producer
    return _measure_many(buffer, start, end)


def _measure_many(buffer: bytes, start: int, end: int) -> tuple[int, int, int, int]:
    """The same for several batches, or a malformed one."""
    batches = walk_batches(buffer, start, end, MAX_BATCHES)
    last = batches[-1] if batches else None
    if last is None or last.offset + last.size != end:
        raise ProtocolError(f"batches do not fill a record set of {end - start} bytes")
    return (
        sum(batch.record_count for batch in batches),
        max(map(batch_payload_size, batches)),
        max(batch.max_timestamp for batch in batches),
        batches[0].producer_id,
    )
