"""What the messages of an entry hold, and entries whose messages have other properties.

A batch is read and written in slices.
"""

import struct
from base64 import b64decode
from collections.abc import Collection, Generator, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

import google_crc32c

from sluicegate_pulsar.codec.errors import ChecksumMismatchError, ProtocolError
from sluicegate_pulsar.codec.frames import ABSENT, Parts, has_valid_checksum
from sluicegate_pulsar.codec.metadata import MetadataHead, single_message
from sluicegate_pulsar.codec.pulsar_pb2 import KeyValue, MessageMetadata, SingleMessageMetadata

MOST_MESSAGES: Final = 20_000
"""Messages of a batch that are read."""
CONTENTS_PER_SLICE: Final = 400
"""Messages of a batch that are read or written in one slice: some 1.5 ms."""
_VERSION_BYTES = 8
_size_of = struct.Struct(">I").pack
_crc = google_crc32c.value

Properties: TypeAlias = tuple[tuple[str, bytes], ...]
Content: TypeAlias = tuple[Properties, bytes | None, str, bytes]
"""Properties, key, schema version and value of a message, with defaults where they are not asked for."""


class PropertyChange(NamedTuple):
    """What to change in the properties of each message."""

    set: Mapping[str, bytes]
    """Values by key; they take the place of all properties with that key."""
    remove: Collection[str]


def schema_version(metadata: MessageMetadata) -> str:
    """The version of the schema that all messages of an entry are written by; empty if there is none.

    Versions of Pulsar's own registry are numbers; others are written in hexadecimal digits.
    """
    version = metadata.schema_version
    if len(version) == _VERSION_BYTES:
        return str(int.from_bytes(version, "big"))
    return version.hex()


def read_message(metadata: MessageMetadata, value: bytes, parts: Collection[str]) -> Content:
    """What a message that is no batch holds.

    :param metadata: of its entry.
    :param value: its payload, unpacked; empty where it is not asked for.
    :param parts: which of `headers`, `key`, `schema` and `value` to read.
    """
    return _content(metadata, schema_version(metadata) if "schema" in parts else "", value, parts)


def read_batch(
    head: MetadataHead, payload: bytes, parts: Collection[str]
) -> Generator[None, None, list[Content]]:
    """What each message of a batch holds; yields between two slices.

    :param head: what `read_metadata` has read.
    :param payload: unpacked.
    :param parts: as for `read_message`.
    :raises ProtocolError: when the messages do not fill the payload.
    """
    schema = schema_version(head.parsed) if "schema" in parts else ""
    contents: list[Content] = []
    at, stop = 0, len(payload)
    for number in range(1, head.num_messages_in_batch + 1):
        single, start = single_message(payload, at, stop)
        at = start + single.payload_size
        contents.append(_content(single, schema, payload[start:at] if "value" in parts else b"", parts))
        if number % CONTENTS_PER_SLICE == 0:
            yield
    _check_end(at, stop)
    return contents


def changed_batch(head: MetadataHead, payload: bytes, change: PropertyChange) -> Generator[None, None, bytes]:
    """The payload of a batch whose messages have other properties, not compressed; yields between two slices.

    :param head: what `read_metadata` has read.
    :param payload: unpacked.
    :param change: what to change.
    :raises ProtocolError: when the messages do not fill the payload.
    """
    pieces: list[bytes] = []
    at, stop = 0, len(payload)
    for number in range(1, head.num_messages_in_batch + 1):
        single, start = single_message(payload, at, stop)
        end = start + single.payload_size
        if _change(single, change):
            raw = single.SerializePartialToString()
            pieces += (_size_of(len(raw)), raw, payload[start:end])
        else:
            pieces.append(payload[at:end])
        at = end
        if number % CONTENTS_PER_SLICE == 0:
            yield
    _check_end(at, stop)
    return b"".join(pieces)


def with_change(
    data: bytes, start: int, stop: int, parts: Parts, head: MetadataHead, change: PropertyChange
) -> bytes:
    """The frame of a message that is no batch, with other properties; its payload stays.

    Other fields of its metadata stay too, if not in their order. The new checksum is made only if the old one
    is right, so that damage stays detectable. A frame without a checksum gets none.

    :param data: a buffer that holds the frame.
    :param start: offset of the frame's size.
    :param stop: offset after the frame.
    :param parts: what `split` found in it.
    :param head: what `read_metadata` found in it.
    :param change: what to change.
    :raises ChecksumMismatchError: when the frame's checksum does not hold.
    """
    metadata = MessageMetadata()
    metadata.CopyFrom(head.parsed)
    _change(metadata, change)
    return _framed(data, start, parts, metadata, data[parts.payload : stop])


def with_batch(data: bytes, start: int, parts: Parts, head: MetadataHead, size: int, payload: bytes) -> bytes:
    """The frame of a batch with another payload; parameters and errors as for `with_change`.

    :param size: bytes of its content before it was packed.
    :param payload: packed by the same codec.
    """
    metadata = MessageMetadata()
    metadata.CopyFrom(head.parsed)
    if metadata.HasField("uncompressed_size"):
        metadata.uncompressed_size = size
    return _framed(data, start, parts, metadata, payload)


def _content(
    metadata: MessageMetadata | SingleMessageMetadata, schema: str, value: bytes, parts: Collection[str]
) -> Content:
    properties = _properties(metadata) if "headers" in parts else ()
    key = None
    if "key" in parts and metadata.HasField("partition_key") and not metadata.null_partition_key:
        key = _bytes(metadata.partition_key)
        if metadata.partition_key_b64_encoded:
            try:
                key = b64decode(key, validate=True)
            except ValueError as error:
                raise ProtocolError("a key that is not encoded as base 64") from error
    return properties, key, schema, value


def _properties(metadata: MessageMetadata | SingleMessageMetadata) -> Properties:
    # <hot> For each message. What adds to bytes, or encodes them, raises: then one is no UTF-8.
    try:
        return tuple([(each.key + "", each.value.encode()) for each in metadata.properties])
    except (AttributeError, TypeError):
        return tuple([(_text(each.key), _bytes(each.value)) for each in metadata.properties])


def _change(metadata: MessageMetadata | SingleMessageMetadata, change: PropertyChange) -> bool:
    """Change the properties; False if there is nothing to change."""
    kept = [each for each in metadata.properties if not _is_gone(_text(each.key), change)]
    if not change.set and len(kept) == len(metadata.properties):
        return False
    raw: Iterable[KeyValue] = [KeyValue.FromString(each.SerializePartialToString()) for each in kept]
    added = [
        KeyValue(key=key, value=value.decode(errors="backslashreplace")) for key, value in change.set.items()
    ]
    del metadata.properties[:]
    metadata.properties.extend((*raw, *added))
    return True


def _is_gone(key: str, change: PropertyChange) -> bool:
    return key in change.remove or key in change.set


def _text(value: Any) -> str:
    """A text; protobuf hands out bytes where it is not UTF-8."""
    return value if isinstance(value, str) else str(value, "utf-8", "surrogateescape")


def _bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


def _check_end(at: int, stop: int) -> None:
    if at != stop:
        raise ProtocolError(f"{stop - at} bytes left over in a batch")


def _framed(data: bytes, start: int, parts: Parts, metadata: MessageMetadata, payload: bytes) -> bytes:
    if not has_valid_checksum(data, parts):
        raise ChecksumMismatchError("a checksum that does not hold")
    raw = metadata.SerializePartialToString()
    checked = b"".join((_size_of(len(raw)), raw, payload))
    if parts.checksum == ABSENT:
        rest = data[start + 4 : parts.metadata - 4] + checked
    else:
        rest = b"".join((data[start + 4 : parts.checksum], _size_of(_crc(checked)), checked))
    return _size_of(len(rest)) + rest
