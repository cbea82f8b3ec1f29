"""Bytes of Pulsar's protocol, as clients and brokers send them."""

import struct

import google_crc32c

from sluicegate_pulsar.codec import pulsar_pb2 as pb
from sluicegate_pulsar.codec.frames import MAGIC_CHECKSUM, command_frame

_TYPES = pb.BaseCommand.Type


def command(kind: str, **fields: object) -> bytes:
    """A command without a payload.

    :param kind: the field of `BaseCommand` that holds it, such as `producer_success`.
    """
    return command_frame(pb.BaseCommand(type=_TYPES.Value(kind.upper()), **{kind: fields}))


def payload_frame(command: pb.BaseCommand, metadata: bytes, payload: bytes) -> bytes:
    """A frame of a command with metadata and payload, and their checksum.

    :param command: SEND or MESSAGE.
    :param metadata: a serialized MessageMetadata.
    :param payload: what follows it.
    """
    raw = command.SerializeToString()
    checked = struct.pack(">I", len(metadata)) + metadata + payload
    head = struct.pack(">II", 4 + len(raw) + 6 + len(checked), len(raw))
    return head + raw + struct.pack(">HI", MAGIC_CHECKSUM, google_crc32c.value(checked)) + checked


def send(sequence_id: int, payload: bytes = b"x", **fields: object) -> bytes:
    """A SEND of producer 0.

    :param fields: more of the message's metadata.
    """
    sent = pb.BaseCommand(type=_TYPES.SEND, send={"producer_id": 0, "sequence_id": sequence_id})
    known = {"producer_name": "p-0", "sequence_id": sequence_id, "publish_time": 1, **fields}
    return payload_frame(sent, pb.MessageMetadata(**known).SerializeToString(), payload)  # type: ignore[arg-type]
