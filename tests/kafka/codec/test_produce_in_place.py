"""Produce requests by hand: lengths at the turn to a second byte, tagged fields, limits and slices."""

import struct
from collections.abc import Sequence

import pytest

from sluicegate_kafka.codec.errors import ProtocolError
from sluicegate_kafka.codec.frames import RequestHead, parse_request_head
from sluicegate_kafka.codec.primitives import write_array_length, write_string, write_uvarint
from sluicegate_kafka.codec.produce_parts import subset_produce
from sluicegate_kafka.codec.produce_requests import (
    MAX_ENTRIES,
    ProduceRequest,
    scan_plain,
    scan_produce,
    scan_slices,
)
from sluicegate_kafka.codec.records import BATCH_OVERHEAD
from sluicegate_kafka.codec.slices import ENTRIES_PER_SLICE

FLEXIBLE, LEGACY = 12, 8
both = pytest.mark.parametrize("version", [FLEXIBLE, LEGACY])
NO_TAGS = b"\0"


def batch(payload: int = 0, producer: int = -1, timestamp: int = 20, count: int = 1) -> bytes:
    """A batch with so many bytes of records."""
    length = BATCH_OVERHEAD - 12 + payload
    head = struct.pack(">qiibIhiqqqhii", 0, length, 0, 2, 0, 0, 0, 10, timestamp, producer, -1, -1, count)
    return head + bytes(payload)


def partition(version: int, index: int, records: bytes = b"", tags: bytes = NO_TAGS) -> bytes:
    if version < 9:
        return struct.pack(">ii", index, len(records)) + records
    return struct.pack(">i", index) + write_uvarint(len(records) + 1) + records + tags


def topic(version: int, name: str, partitions: Sequence[bytes], tags: bytes = NO_TAGS) -> bytes:
    flexible = version >= 9
    head = write_string(name, flexible) + write_array_length(len(partitions), flexible)
    return head + b"".join(partitions) + (tags if flexible else b"")


def request(
    version: int, topics: Sequence[bytes], transaction: str | None = None, tags: bytes = NO_TAGS
) -> bytes:
    flexible = version >= 9
    head = struct.pack(">hhihs", 0, version, 1, 1, b"c") + (NO_TAGS if flexible else b"")
    none = b"\0" if flexible else b"\xff\xff"
    named = none if transaction is None else write_string(transaction, flexible)
    body = named + struct.pack(">hi", -1, 500) + write_array_length(len(topics), flexible)
    return head + body + b"".join(topics) + (tags if flexible else b"")


def read(frame: bytes) -> ProduceRequest:
    return scan_produce(frame, parse_request_head(frame))


def turns(frame: bytes) -> int:
    """How often a reader lets others have their turn."""
    return sum(1 for _ in scan_slices(frame, parse_request_head(frame)))


@both
@pytest.mark.parametrize("size", [1, 126, 127, 128, 129, 255])
def test_names_of_any_length_are_read(version: int, size: int) -> None:
    name = "n" * size
    frame = request(version, [topic(version, name, [partition(version, 3, batch())])], transaction=name)
    found = read(frame)
    assert found.acks == -1
    assert [(each.name, each.partitions, each.inspected) for each in found.topics] == [(name, [3], None)]
    assert frame[found.topics[0].start :].startswith(write_string(name, version >= 9))


@both
def test_a_name_may_be_empty(version: int) -> None:
    found = read(request(version, [topic(version, "", [partition(version, 3, batch())])], transaction=""))
    assert [each.name for each in found.topics] == [""]


@pytest.mark.parametrize("version", [8, 9])
def test_a_subset_has_the_length_of_its_version(version: int) -> None:
    topics = [topic(version, name, [partition(version, 0, batch())]) for name in "abc"]
    frame = request(version, topics)
    subset = request(version, [topics[0], topics[2]])
    assert subset_produce(_shifted(frame), [0, 2]) == len(subset).to_bytes(4) + subset


def _shifted(frame: bytes) -> ProduceRequest:
    """A request that stands behind two other bytes."""
    return scan_produce(b"xx" + frame, parse_request_head(b"xx" + frame, 2))


@both
@pytest.mark.parametrize("count", [126, 127, 128])
def test_any_number_of_topics_and_partitions_is_read(version: int, count: int) -> None:
    partitions = [partition(version, index, batch()) for index in range(count)]
    found = read(
        request(version, [topic(version, "many", partitions), *[topic(version, "t", [])] * (count - 1)])
    )
    assert [each.partitions for each in found.topics] == [list(range(count))] + [[]] * (count - 1)
    assert (found.topics[0].messages, found.topics[0].bytes) == (count, count * BATCH_OVERHEAD)


@both
@pytest.mark.parametrize("size", [126, 127, 128])
def test_records_of_any_length_are_read(version: int, size: int) -> None:
    records = batch(size - BATCH_OVERHEAD, producer=7, count=2)
    frame = request(version, [topic(version, "t", [partition(version, 0, records)])])
    (found,) = read(frame).topics
    assert [frame[start:end] for start, end in found.records] == [records]
    assert (found.messages, found.bytes, found.largest_batch) == (2, size, size - BATCH_OVERHEAD)
    assert (found.producer_id, found.more_producers, found.max_timestamp) == (7, (), 20)


@pytest.mark.parametrize("tag", [0, 1, 5])
@pytest.mark.parametrize("partitions", [1, 2])
@pytest.mark.parametrize("tagged", ["partition", "topic", "request"])
def test_unknown_tagged_fields_are_skipped(tagged: str, partitions: int, tag: int) -> None:
    of = dict.fromkeys(("partition", "topic", "request"), NO_TAGS) | {tagged: bytes((1, tag, 2)) + b"hi"}
    each = topic(FLEXIBLE, "t", [partition(FLEXIBLE, 0, batch(3), of["partition"])] * partitions, of["topic"])
    frame = request(FLEXIBLE, [each, each], tags=of["request"])
    found = read(frame)
    assert [frame[topic.start : topic.end] for topic in found.topics] == [each, each]
    assert frame[found.topics_end :] == of["request"]


@both
def test_a_topic_without_partitions_has_no_producer_and_no_time(version: int) -> None:
    (found,) = read(request(version, [topic(version, "t", [])])).topics
    assert (found.producer_id, found.max_timestamp, found.more_producers) == (-1, -1, ())


@both
def test_producers_of_one_topic_are_told_apart(version: int) -> None:
    def found(*producers: int | None) -> tuple[int, tuple[int, ...]]:
        records = [b"" if each is None else batch(producer=each) for each in producers]
        parts = [partition(version, index, each) for index, each in enumerate(records)]
        (topic_,) = read(request(version, [topic(version, "t", parts)])).topics
        return topic_.producer_id, topic_.more_producers

    assert found(7, 7) == (7, ())
    assert found(7, -1, 8, 7) == (7, (-1, 8))
    assert found(-1, 0, 5) == (0, (-1, 5))
    assert found(-1, -1) == (-1, ())
    assert found(None, 7) == (7, ())
    assert found(None, None) == (-1, ())


@both
def test_the_largest_batch_and_the_latest_timestamp_of_a_topic_count(version: int) -> None:
    batches = [
        batch(5, timestamp=30, count=1),
        batch(9, timestamp=40, count=2),
        batch(7, timestamp=35, count=4),
    ]
    parts = [partition(version, index, each) for index, each in enumerate(batches)]
    (found,) = read(request(version, [topic(version, "t", parts)])).topics
    assert (found.messages, found.bytes) == (7, 3 * BATCH_OVERHEAD + 21)
    assert (found.largest_batch, found.max_timestamp) == (9, 40)


@pytest.mark.parametrize("version", [9, 12])
def test_a_request_for_one_partition_is_read_in_one_step(version: int) -> None:
    frame = b"ab" + request(version, [topic(version, "t", [partition(version, 4, batch(3))])]) + b"next"
    head = parse_request_head(frame, 2, len(frame) - 4)
    assert scan_plain(frame, head) == scan_produce(frame, head)


@pytest.mark.parametrize("version", [3, 8, 13])
def test_a_request_of_another_version_is_not_read_in_one_step(version: int) -> None:
    frame = request(version, [topic(version, "t", [partition(version, 4, batch(3))])])
    assert scan_plain(frame, parse_request_head(frame)) is None


@pytest.mark.parametrize("topics", [0, 2])
def test_a_request_for_several_topics_is_not_read_in_one_step(topics: int) -> None:
    frame = request(12, [topic(12, "t", [partition(12, 4, batch(3))])] * topics)
    assert scan_plain(frame, parse_request_head(frame)) is None


@pytest.mark.parametrize("partitions", [0, 2])
def test_a_request_for_several_partitions_is_not_read_in_one_step(partitions: int) -> None:
    frame = request(12, [topic(12, "t", [partition(12, 4, batch(3))] * partitions)])
    assert scan_plain(frame, parse_request_head(frame)) is None


def test_a_malformed_request_is_refused_in_one_step_too() -> None:
    frame = request(12, [topic(12, "t", [partition(12, 4, batch(3))])])
    with pytest.raises(ProtocolError, match="a truncated Produce request"):
        scan_plain(frame[:-40], parse_request_head(frame[:-40]))
    with pytest.raises(ProtocolError, match=r"^a topic without a name$"):
        scan_plain(request(12, [b"\0"]), parse_request_head(request(12, [b"\0"])))


@both
def test_bytes_behind_a_request_are_refused(version: int) -> None:
    frame = request(version, [topic(version, "t", [partition(version, 4, batch(3))])])
    data = b"ab" + frame + b"!"
    head = parse_request_head(data, 2)
    reason = f"a Produce request of {len(frame)} bytes in {len(frame) + 1}"
    with pytest.raises(ProtocolError, match=reason):
        scan_produce(data, head)
    if version == FLEXIBLE:
        with pytest.raises(ProtocolError, match=reason):
            scan_plain(data, head)


@both
def test_a_request_may_name_no_topic_and_no_transaction(version: int) -> None:
    found = read(request(version, []))
    assert found.topics == []


def test_partitions_without_records_hold_nothing() -> None:
    null, empty = b"\0\0\0\5\0" + NO_TAGS, partition(FLEXIBLE, 6)
    for parts in ([null], [null, empty], [empty, null]):
        frame = request(FLEXIBLE, [topic(FLEXIBLE, "t", parts)])
        (found,) = read(frame).topics
        assert sorted(found.partitions) == [5, 6][: len(parts)]
        assert {end - start for start, end in found.records} == {0}
        assert (found.messages, found.bytes, found.producer_id) == (0, 0, -1)


def refused(frame: bytes) -> str:
    with pytest.raises(ProtocolError) as raised:
        read(frame)
    return str(raised.value)


def claims(version: int, topics: int, *entries: bytes) -> bytes:
    """A request that claims so many topics, and has some of them."""
    none = request(version, [])
    end = 1 if version >= 9 else 0
    at = len(none) - end - (1 if version >= 9 else 4)
    return none[:at] + write_array_length(topics, version >= 9) + b"".join(entries)


@both
def test_the_number_of_topics_is_bounded(version: int) -> None:
    assert refused(claims(version, MAX_ENTRIES)) == f"{MAX_ENTRIES} topics in a Produce request"
    assert refused(claims(version, MAX_ENTRIES - 1)).startswith("a truncated Produce request")


@both
def test_the_number_of_partitions_is_bounded_over_all_topics(version: int) -> None:
    def many(partitions: int) -> bytes:
        return write_string("t", version >= 9) + write_array_length(partitions, version >= 9)

    some = topic(version, "t", [partition(version, 0)] * 1_500)
    for entries, left in (
        ([], MAX_ENTRIES),
        ([some], MAX_ENTRIES - 1_500),
        ([some, some], MAX_ENTRIES - 3_000),
    ):
        text = f"{left} partitions in a topic of a Produce request"
        assert refused(claims(version, 3, *entries, many(left))) == text
        assert refused(claims(version, 3, *entries, many(left - 1))).startswith("a truncated Produce request")


@both
@pytest.mark.parametrize(
    "count", [ENTRIES_PER_SLICE - 1, ENTRIES_PER_SLICE, 2 * ENTRIES_PER_SLICE - 1, 2_500]
)
def test_many_partitions_are_found_and_added_up_in_slices(version: int, count: int) -> None:
    frame = request(version, [topic(version, "t", [partition(version, 0)] * count)])
    assert turns(frame) == 2 * (count // ENTRIES_PER_SLICE)


@both
@pytest.mark.parametrize(
    ("topics", "partitions", "slices"),
    [
        (500, 1, 0),
        (501, 1, 1),
        (1_001, 1, 2),
        (1_000, 0, 0),
        (1_001, 0, 1),
        (2_000, 0, 1),
        (2_001, 0, 2),
        (334, 2, 0),
        (335, 2, 1),
    ],
)
def test_many_topics_are_read_in_slices(version: int, topics: int, partitions: int, slices: int) -> None:
    one = topic(version, "t", [partition(version, 0)] * partitions)
    assert turns(request(version, [one] * topics)) == slices


def test_a_version_that_names_topics_by_id_is_refused() -> None:
    for version in (2, 13):
        frame = request(version, [])
        head = RequestHead(0, version, 1, "c", 12, 0, len(frame))
        with pytest.raises(ProtocolError, match=f"produce version {version}, expected 3 to 12"):
            scan_produce(frame, head)
