"""The metadata of an entry: reads it, replaces the delivery time, measures the messages of a batch.

Parsing goes through protobuf here: for six fields its C code is faster than varints read in Python.
"""

import struct
from collections.abc import Generator
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import google_crc32c
from google.protobuf.message import DecodeError

from sluicegate_pulsar.codec.entries import MANY
from sluicegate_pulsar.codec.errors import ChecksumMismatchError, ProtocolError
from sluicegate_pulsar.codec.frames import ABSENT, Parts, has_valid_checksum
from sluicegate_pulsar.codec.pulsar_pb2 import MessageMetadata, SingleMessageMetadata
from sluicegate_pulsar.codec.sends import SendHead, parts_of
from sluicegate_pulsar.codec.varints import fields, write_uvarint

Buffer: TypeAlias = bytes | memoryview
Result = TypeVar("Result")

_DELIVER_AT: Final = 19
_DELIVER_AT_TAG = bytes((0x98, 0x01))
_MASK64 = 2**64 - 1
_MAX_FIELDS = 5_000
"""Fields of metadata that are walked one by one; each property of a message is one."""
MESSAGES_PER_SLICE = 2_000
"""Messages of a batch that are walked in one slice: some 1.2 ms."""
_LEAST_MESSAGE_BYTES = 6
"""A message within a batch: the size of its metadata, and there the size of its payload."""
_UNPACKED_BYTES = 5 * 1024 * 1024
"""The largest message that brokers take by default; a compressed batch may claim to hold as much."""
_EXPANDS: Final = {
    MessageMetadata.NONE: 1,
    MessageMetadata.LZ4: 255,
    MessageMetadata.ZLIB: 1_032,
    MessageMetadata.SNAPPY: 22,
}
"""How many times its size a payload can hold at most, by its compression; Zstandard has no such bound."""
_JOINED = 16 * 1024
"""A payload up to this size is copied behind its new head: two writes would cost more."""

_u32 = struct.Struct(">I").unpack_from
_pack_u32 = struct.Struct(">I").pack
_crc = google_crc32c.value
_extend_crc = google_crc32c.extend
_parse = MessageMetadata.FromString
_parse_single = SingleMessageMetadata.FromString


class MetadataHead:
    """What the gateway reads of an entry's metadata; rarely needed fields are read on demand."""

    __slots__ = ("is_chunk", "parsed", "publish_time")

    def __init__(self, metadata: MessageMetadata) -> None:
        self.parsed = metadata
        """All of it; not to be changed."""
        self.publish_time: int = metadata.publish_time
        """When the client published it, ms since the epoch; at most 2**64 - 1."""
        self.is_chunk: bool = metadata.num_chunks_from_msg > 1
        """True if the entry is a piece of a message."""

    @property
    def deliver_at(self) -> int | None:
        """The delivery time that the client asks for, ms since the epoch, of any sign; None if unset."""
        metadata = self.parsed
        return metadata.deliver_at_time if metadata.HasField("deliver_at_time") else None

    @property
    def is_batch(self) -> bool:
        """True if the payload is a batch, even of one message."""
        return self.parsed.HasField("num_messages_in_batch")

    @property
    def num_messages_in_batch(self) -> int:
        """Messages in the entry, never below 1."""
        return max(self.parsed.num_messages_in_batch, 1)

    @property
    def compression(self) -> int:
        """A value of MessageMetadata.CompressionType; may be an unknown one."""
        return self.parsed.compression

    @property
    def is_encrypted(self) -> bool:
        """True if the payload is encrypted."""
        return bool(self.parsed.encryption_keys)

    @property
    def chunk_id(self) -> int | None:
        """The index of the chunk in its message, from 0; None if it is no chunk."""
        metadata = self.parsed
        return metadata.chunk_id if metadata.HasField("chunk_id") else None

    @property
    def chunks(self) -> int:
        """How many pieces its message has; 0 if it is no piece."""
        return self.parsed.num_chunks_from_msg

    @property
    def is_last_chunk(self) -> bool:
        """True for the chunk that completes its message, and for an unchunked message."""
        metadata = self.parsed
        return metadata.chunk_id >= metadata.num_chunks_from_msg - 1

    @property
    def total_chunk_size(self) -> int:
        """Bytes of the whole chunked message; 0 if it is no chunk."""
        return self.parsed.total_chunk_msg_size

    @property
    def uuid(self) -> str:
        """The id that the chunks of a message share; empty if it is no chunk."""
        text: str | bytes = self.parsed.uuid
        # protobuf hands out bytes where a text is not UTF-8
        return text if isinstance(text, str) else text.decode(errors="backslashreplace")

    def check_count(self, payload_size: int) -> None:
        """Compare the number of messages with what a payload can hold.

        :raises ProtocolError: when it is larger; up to `MANY` are always believed.
        """
        metadata = self.parsed
        claimed = metadata.num_messages_in_batch
        most = min(payload_size * _EXPANDS.get(metadata.compression, _UNPACKED_BYTES), _UNPACKED_BYTES)
        most_messages = max(payload_size, min(metadata.uncompressed_size, most)) // _LEAST_MESSAGE_BYTES
        if claimed > max(most_messages, MANY):
            raise ProtocolError(f"a batch of {claimed} messages in a payload of {payload_size} bytes")


def read_metadata(data: bytes, start: int, stop: int) -> MetadataHead:
    """Read an entry's metadata.

    :param data: a buffer that holds it.
    :param start: offset of its first byte.
    :param stop: offset after it.
    :raises ProtocolError: when it is malformed.
    """
    return MetadataHead(_read(data[start:stop]))


def read_composed(data: bytes, start: int, stop: int, head: SendHead) -> MetadataHead | None:
    """Read the metadata of a SEND that may be a batch or a chunk.

    :param data: the buffer that holds the frame.
    :param start: offset of the frame's size.
    :param stop: offset after the frame.
    :param head: what `read_send` found in it.
    :return: None if it was damaged in transit: the broker detects that by the checksum too, and stores
        nothing.
    :raises ProtocolError: when it is malformed.
    """
    try:
        metadata = _read(data[head.metadata : head.payload])
        read = MetadataHead(metadata)
        if metadata.num_messages_in_batch > MANY:
            read.check_count(head.payload_size)
        return read
    except ProtocolError:
        if has_valid_checksum(data, parts_of(data, start, stop, head)):
            raise
        return None


def _read(raw: bytes) -> MessageMetadata:
    try:
        metadata = _parse(raw)
    except DecodeError as error:
        raise ProtocolError(f"metadata of {len(raw)} bytes that cannot be read: {error}") from error
    if not metadata.HasField("publish_time"):
        raise ProtocolError(f"metadata of {len(raw)} bytes without a publish time")
    return metadata


def with_deliver_at(
    data: bytes,
    start: int,
    stop: int,
    parts: Parts,
    deliver_at_ms: int,
    head: MetadataHead | None = None,
) -> tuple[Buffer, ...]:
    """Replace the delivery time of a frame; all other bytes of its metadata and its payload stay.

    The new checksum is made only if the old one is right, so that damage stays detectable. A frame without a
    checksum gets none.

    :param data: a buffer that holds the frame.
    :param start: offset of the frame's size.
    :param stop: offset after the frame.
    :param parts: what `split` found in it.
    :param deliver_at_ms: ms since the epoch, as a signed 64-bit integer.
    :param head: what `read_metadata` found in it, where that is known already.
    :return: the new frame: in one piece where it is small, else its head and its payload.
    :raises ChecksumMismatchError: when the frame's checksum does not hold.
    :raises ProtocolError: when the metadata is malformed.
    """
    raw = data[parts.metadata : parts.payload]
    # Truncated metadata would swallow appended bytes, so it must have been parsed before.
    asked = (head or MetadataHead(_read(raw))).deliver_at
    metadata = (raw if asked is None else _without_deliver_at(raw)) + _deliver_at_field(deliver_at_ms)
    size = _pack_u32(len(metadata))
    total = _pack_u32(stop - start - 4 - len(raw) + len(metadata))
    if parts.checksum == ABSENT:
        first = b"".join((total, data[start + 4 : parts.metadata - 4], size, metadata))
        return first, memoryview(data)[parts.payload : stop]
    stated = _u32(data, parts.checksum)[0]
    if stop - parts.payload <= _JOINED:
        if _crc(data[parts.metadata - 4 : stop]) != stated:
            raise _mismatch(stated)
        checked = b"".join((size, metadata, data[parts.payload : stop]))
        return (b"".join((total, data[start + 4 : parts.checksum], _pack_u32(_crc(checked)), checked)),)
    payload = data[parts.payload : stop]  # google-crc32c accepts no memory views
    if _extend_crc(_crc(data[parts.metadata - 4 : parts.payload]), payload) != stated:
        raise _mismatch(stated)
    checksum = _pack_u32(_extend_crc(_crc(size + metadata), payload))
    return b"".join((total, data[start + 4 : parts.checksum], checksum, size, metadata)), payload


def _mismatch(stated: int) -> ChecksumMismatchError:
    return ChecksumMismatchError(f"a checksum of {stated:#010x} that does not hold")


def _deliver_at_field(deliver_at_ms: int) -> bytes:
    if 2**35 <= deliver_at_ms < 2**42:  # until the year 2109
        return bytes(
            (
                0x98,
                0x01,
                deliver_at_ms & 0x7F | 0x80,
                deliver_at_ms >> 7 & 0x7F | 0x80,
                deliver_at_ms >> 14 & 0x7F | 0x80,
                deliver_at_ms >> 21 & 0x7F | 0x80,
                deliver_at_ms >> 28 & 0x7F | 0x80,
                deliver_at_ms >> 35,
            )
        )
    return _DELIVER_AT_TAG + write_uvarint(deliver_at_ms & _MASK64)


def _without_deliver_at(raw: bytes) -> bytes:
    """Metadata without its delivery time; other fields stay."""
    pieces = []
    done = 0
    for number, field in enumerate(fields(raw, 0, len(raw))):
        if number >= _MAX_FIELDS:
            raise ProtocolError(f"metadata with over {_MAX_FIELDS} fields")
        if field.number == _DELIVER_AT and field.wire_type == 0:
            pieces.append(raw[done : field.start])
            done = field.stop
    pieces.append(raw[done:])
    return b"".join(pieces)


class Measured(NamedTuple):
    """What a walk over the messages of an entry comes to."""

    largest: int
    """Payload bytes of the largest message."""
    walked: int
    """Messages that the last slice walked."""


Measuring: TypeAlias = Generator[None, None, Measured]
"""Yields between two slices."""


def largest_message(data: bytes, parts: Parts, head: MetadataHead, limit: int = 0) -> Measuring:
    """Payload bytes of an entry's largest message, found in slices.

    A compressed or encrypted payload counts as a whole. No message is larger than
    the payload, so a payload below the limit needs no walk.

    :param data: the buffer that holds the frame.
    :param parts: what `split` found in it.
    :param head: what `read_metadata` found in it.
    :param limit: the walk ends once it is known whether a message is over it.
    :raises ProtocolError: when the messages of a batch reach past its end.
    """
    at, stop = parts.payload, parts.stop
    if not head.is_batch or head.compression or head.is_encrypted:
        return Measured(stop - at, 0)
    largest = walked = 0
    for _ in range(head.num_messages_in_batch):
        single, at = single_message(data, at, stop)
        size = single.payload_size
        at += size
        largest = max(largest, size)
        walked += 1
        if limit and (largest > limit or stop - at <= limit):
            return Measured(largest, walked)
        if walked == MESSAGES_PER_SLICE:
            yield
            walked = 0
    largest = max(largest, stop - at)  # trailing bytes belong to no message, and must not hide here
    return Measured(largest, walked)


def at_once(slices: Generator[Any, Any, Result]) -> Result:
    """Run all slices without a pause."""
    while True:
        try:
            next(slices)
        except StopIteration as ended:
            result: Result = ended.value
            return result


def single_message(data: bytes, at: int, stop: int) -> tuple[SingleMessageMetadata, int]:
    """The metadata of one message of a batch, and the offset of its payload, which is there.

    :param data: a buffer that holds the payload of the batch.
    :param at: where the message starts.
    :param stop: where the payload of the batch stops.
    :raises ProtocolError: when the message reaches past that.
    """
    start = at + 4
    if start > stop:
        raise ProtocolError(f"a batch that ends {stop - at} bytes into the size of a message's metadata")
    end = start + _u32(data, at)[0]
    if end > stop:
        raise ProtocolError(f"a message's metadata of {end - start} bytes where {stop - start} remain")
    try:
        single = _parse_single(data[start:end])
    except DecodeError as error:
        raise ProtocolError(f"a message's metadata that cannot be read: {error}") from error
    if not 0 <= single.payload_size <= stop - end:
        raise ProtocolError(f"a message of {single.payload_size} bytes where {stop - end} remain")
    return single, end
