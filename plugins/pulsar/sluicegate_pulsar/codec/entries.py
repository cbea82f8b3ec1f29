"""The kind of an entry by its metadata: one message, a batch, or a chunk. A SEND's command only claims it.

Consumers use the metadata alone: `num_messages_in_batch` (field 11) is the number of messages,
`num_chunks_from_msg` (field 27) that there is a part of one.
"""

import re
from typing import Final

from google.protobuf.message import DecodeError

from sluicegate_pulsar.codec.pulsar_pb2 import MessageMetadata

_parse = MessageMetadata.FromString
BATCH_TAG: Final = 0x58
"""The tag of `num_messages_in_batch`, a varint of one byte."""
LONG_TAG: Final = 0xD8
"""The first byte of the tag of `num_chunks_from_msg`, and of every longer way to write the other tag.

Metadata with neither byte is that of one whole message."""
MANY: Final = 10_000
"""Up to so many messages are believed; more are compared with what the payload can hold."""

_NAME_TAG = 0x0A
_ONE_BYTE = 0x7F
_USUAL = re.compile(rb"\x10[\x80-\xff]{0,9}[\0-\x7f]\x18[\x80-\xff]{0,9}[\0-\x7f][^\x58\xd8]*", re.DOTALL)
"""What follows the producer's name, as clients write it: two numbers, of which any byte may be one of these
tags, and a rest in which none is."""


def messages_in(metadata: bytes) -> int:
    """How many messages a consumer finds in an entry.

    :param metadata: all of it.
    :return: 1 or more; 0 if the entry has to be parsed completely: a chunk, many messages, or malformed.
    """
    if BATCH_TAG not in metadata and LONG_TAG not in metadata:
        return 1
    if (
        metadata[0] == _NAME_TAG  # so that one of the other two bytes follows it
        and metadata[1] <= _ONE_BYTE
        and _USUAL.fullmatch(metadata, 2 + metadata[1])
    ):
        return 1
    # protobuf's C code reads all fields in the time in which Python reads one.
    try:
        parsed = _parse(metadata)
    except DecodeError:
        return 0
    messages = parsed.num_messages_in_batch
    return 0 if parsed.num_chunks_from_msg > 1 or messages > MANY else max(messages, 1)
