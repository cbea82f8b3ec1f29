"""Bytes of the Kafka protocol, written without the gate's own codec."""

import struct
from collections.abc import Iterable, Mapping

TINY = b"\x0c\0\0\0\x01\x01\0"
"""A record of seven bytes: neither key nor value nor headers."""


def request(
    api_key: int,
    version: int,
    body: bytes,
    *,
    flexible: bool = False,
    correlation_id: int = 1,
    client_id: str = "app",
) -> bytes:
    """A request with its header and its length."""
    head = struct.pack(">hhi", api_key, version, correlation_id) + text(client_id)
    head += b"\0" if flexible else b""
    return struct.pack(">i", len(head) + len(body)) + head + body


def response(body: bytes, *, correlation_id: int = 1) -> bytes:
    """A response of a version that is not flexible, with its header and its length."""
    return struct.pack(">ii", 4 + len(body), correlation_id) + body


def text(value: str) -> bytes:
    """A string, not compact."""
    return struct.pack(">h", len(value)) + value.encode()


def array(entries: Iterable[bytes]) -> bytes:
    """An array, not compact."""
    listed = list(entries)
    return struct.pack(">i", len(listed)) + b"".join(listed)


def batch(records: bytes, count: int) -> bytes:
    """A batch of records."""
    size = 49 + len(records)
    return struct.pack(">qiibIhiqqqhii", 0, size, 0, 2, 0, 0, 0, 10, 20, -1, -1, -1, count) + records


def produce(topics: Mapping[str, Mapping[int, bytes]], client_id: str = "app") -> bytes:
    """A Produce request with these records by topic and partition."""
    parts = [b"\xff\xff", struct.pack(">hii", -1, 30_000, len(topics))]
    for topic, partitions in topics.items():
        parts.append(text(topic) + struct.pack(">i", len(partitions)))
        for index, records in partitions.items():
            parts += [struct.pack(">ii", index, len(records)), records]
    return request(0, 8, b"".join(parts), client_id=client_id)


def fetch(topics: Mapping[str, range]) -> bytes:
    """A Fetch request of partitions by topic."""
    named = [
        text(topic) + array(struct.pack(">iiqqi", index, -1, 0, -1, 1 << 20) for index in partitions)
        for topic, partitions in topics.items()
    ]
    return request(
        1, 11, struct.pack(">iiiibii", -1, 500, 1, 1 << 20, 0, 0, -1) + array(named) + bytes(4) + text("")
    )


def fetched(topics: Mapping[str, Mapping[int, bytes]]) -> bytes:
    """The answer to it with these records by topic and partition."""
    topics_ = [
        text(topic)
        + array(
            struct.pack(">ihqqqiii", index, 0, 9, 9, 0, -1, -1, len(records)) + records
            for index, records in partitions.items()
        )
        for topic, partitions in topics.items()
    ]
    return response(struct.pack(">ihi", 0, 0, 0) + array(topics_))


def join(member: str, topics: Iterable[str]) -> bytes:
    """A JoinGroup request of a consumer."""
    metadata = struct.pack(">h", 0) + array(map(text, topics)) + bytes(4)
    protocol = text("range") + struct.pack(">i", len(metadata)) + metadata
    body = text("g") + struct.pack(">ii", 30_000, 30_000) + text(member) + b"\xff\xff" + text("consumer")
    return request(11, 5, body + array([protocol]))


def joined(member: str) -> bytes:
    """The answer to it: the member has this name, and is not the leader."""
    return response(struct.pack(">ihi", 0, 0, 1) + text("range") + text("leader") + text(member) + array([]))


def sync(member: str) -> bytes:
    """A SyncGroup request of a member that is not the leader."""
    return request(14, 3, text("g") + struct.pack(">i", 1) + text(member) + b"\xff\xff" + array([]))


def synced(topics: Iterable[str]) -> bytes:
    """The answer to it: the member is assigned partition 0 of these topics."""
    assignment = struct.pack(">h", 0) + array(text(each) + array([bytes(4)]) for each in topics) + bytes(4)
    return response(struct.pack(">ihi", 0, 0, len(assignment)) + assignment)


def heartbeat(member: str, topics: Iterable[str]) -> bytes:
    """A ConsumerGroupHeartbeat request (KIP-848) of a member that joins."""
    names = list(topics)
    body = compact("g") + compact(member) + struct.pack(">i", 0) + bytes(2) + struct.pack(">i", 30_000)
    body += uvarint(len(names) + 1) + b"".join(map(compact, names)) + bytes(3)
    return request(68, 0, body, flexible=True)


def compact(value: str) -> bytes:
    """A compact string."""
    return uvarint(len(value) + 1) + value.encode()


def uvarint(number: int) -> bytes:
    """An unsigned number of a flexible version."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*out, number))


def commit(partitions: int) -> bytes:
    """An OffsetCommit request for so many partitions of one topic, of a group without members."""
    each = (struct.pack(">iqih", index, 5, -1, 0) for index in range(partitions))
    body = text("g") + struct.pack(">i", -1) + text("") + b"\xff\xff"
    return request(8, 7, body + array([text("t") + array(each)]))


def committed(partitions: int) -> bytes:
    """The answer to it: all went well."""
    each = (struct.pack(">ih", index, 0) for index in range(partitions))
    return response(bytes(4) + array([text("t") + array(each)]))


def metadata() -> bytes:
    """A Metadata request for all topics."""
    return request(3, 5, struct.pack(">ib", -1, 0))


def described(topics: Iterable[str]) -> bytes:
    """The answer to it: one broker, and these topics with one partition each."""
    broker = struct.pack(">i", 1) + text("b") + struct.pack(">i", 9092) + b"\xff\xff"
    partition = struct.pack(">hii", 0, 0, 1) + array([bytes(4)]) * 2 + array([])
    described_topics = (bytes(2) + text(each) + bytes(1) + array([partition]) for each in topics)
    return response(bytes(4) + array([broker]) + text("c") + struct.pack(">i", 1) + array(described_topics))


def record(value_bytes: int, headers: Mapping[str, bytes] | None = None) -> bytes:
    """A record with a value of so many bytes and without a key."""
    fields = [part for name, value in (headers or {}).items() for part in (name.encode(), value)]
    rest = b"\0\0\0\x01" + _varint(value_bytes) + bytes(value_bytes) + _varint(len(fields) // 2)
    rest += b"".join(_varint(len(each)) + each for each in fields)
    return _varint(len(rest)) + rest


def _varint(number: int) -> bytes:
    return uvarint(2 * number)
