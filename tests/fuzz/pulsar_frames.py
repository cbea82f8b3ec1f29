"""Pulsar commands by chance, filled from the schema's own descriptors, that make sense together."""

import struct
from functools import cache
from random import Random
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from tests.fuzz.services import LONG
from tests.pulsar.session import messages
from tests.pulsar.session.deliveries import message

from sluicegate_pulsar.codec import pulsar_pb2 as pb
from sluicegate_pulsar.codec.frames import command_frame

TOPICS = (
    "persistent://public/default/a",
    "persistent://public/default/b-partition-0",
    "public/default/c",
    "d",
    "non-persistent://public/other/e",
    f"persistent://public/default/{LONG}",
)
_TYPES = messages.TYPES
_TEXTS = {
    "topic": TOPICS,
    "subscription": ("sub", "other"),
    "producer_name": ("p1", "p2", ""),
    "namespace": ("public/default",),
    "brokerServiceUrl": ("pulsar://b:6650",),
    "brokerServiceUrlTls": ("", "pulsar+ssl://b:6651"),
    "assignedBrokerServiceUrl": ("", "pulsar://b:6650", "pulsar://elsewhere:6650"),
}
_ANSWERS: dict[int, str] = {
    _TYPES.PRODUCER: "producer_success",
    _TYPES.SUBSCRIBE: "success",
    _TYPES.UNSUBSCRIBE: "success",
    _TYPES.SEEK: "success",
    _TYPES.CLOSE_PRODUCER: "success",
    _TYPES.CLOSE_CONSUMER: "success",
    _TYPES.LOOKUP: "lookup_response",
    _TYPES.PARTITIONED_METADATA: "partitioned_metadata_response",
    _TYPES.CONSUMER_STATS: "consumer_stats_response",
    _TYPES.GET_LAST_MESSAGE_ID: "get_last_message_id_response",
    _TYPES.GET_TOPICS_OF_NAMESPACE: "get_topics_of_namespace_response",
    _TYPES.GET_SCHEMA: "get_schema_response",
    _TYPES.GET_OR_CREATE_SCHEMA: "get_or_create_schema_response",
    _TYPES.NEW_TXN: "new_txn_response",
    _TYPES.ADD_PARTITION_TO_TXN: "add_partition_to_txn_response",
    _TYPES.ADD_SUBSCRIPTION_TO_TXN: "add_subscription_to_txn_response",
    _TYPES.END_TXN: "end_txn_response",
    _TYPES.TC_CLIENT_CONNECT_REQUEST: "tc_client_connect_response",
    _TYPES.WATCH_TOPIC_LIST: "watch_topic_list_success",
    _TYPES.WATCH_TOPIC_LIST_CLOSE: "success",
    _TYPES.ACK: "ack_response",
    _TYPES.PING: "pong",
}
_UNPROMPTED = (
    "close_producer",
    "close_consumer",
    "active_consumer_change",
    "reached_end_of_topic",
    "watch_topic_update",
    "topic_migrated",
    "auth_challenge",
    "ping",
    "message",
)


def resized(frame: bytes) -> bytes:
    """A frame that says its own length, and the command's where a command is all that it has."""
    if len(frame) < 8:
        return frame
    total, command = struct.unpack_from(">II", frame)
    size = len(frame) - 8 if command + 4 == total else min(command, len(frame) - 8)
    return struct.pack(">II", len(frame) - 4, size) + frame[8:]


@cache
def batch(count: int) -> bytes:
    """The payload of a batch of so many messages."""
    single = pb.SingleMessageMetadata(payload_size=3).SerializeToString()
    return (struct.pack(">I", len(single)) + single + b"abc") * count


def _fill(kind: Descriptor, chance: Random, fixed: dict[str, int]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for field in kind.fields:
        if field.is_repeated:
            out[field.name] = [_value(field, chance, fixed) for _ in range(chance.choice((0, 1, 1, 3)))]
        elif field.name in fixed or field.is_required or chance.random() < 0.3:
            out[field.name] = _value(field, chance, fixed)
    return out


def _value(field: FieldDescriptor, chance: Random, fixed: dict[str, int]) -> Any:
    if field.name in fixed:
        return fixed[field.name]
    if field.message_type is not None:
        return _fill(field.message_type, chance, {})
    if field.enum_type is not None:
        return chance.choice(field.enum_type.values).number
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        text = chance.choice(_TEXTS.get(field.name, ("x",)))
        return text.encode() if field.type == FieldDescriptor.TYPE_BYTES else text
    if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        return chance.random() < 0.5
    if field.cpp_type in (FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE):
        return 0.5
    return chance.choice((0, 1, 2, 5, 100, 2**31 - 1))


def _frame(kind: str, chance: Random, fixed: dict[str, int]) -> bytes:
    descriptor: Any = pb.BaseCommand.DESCRIPTOR.fields_by_name[kind].message_type
    fields: Any = {"type": _TYPES.Value(kind.upper()), kind: _fill(descriptor, chance, fixed)}
    return command_frame(pb.BaseCommand(**fields))


def client_frame(kind: str, holder: int, request_id: int, chance: Random) -> bytes:
    """A command of a client.

    :param kind: its name in the schema.
    :param holder: id of the producer or consumer that it speaks of.
    """
    fixed = {"producer_id": holder, "consumer_id": holder, "request_id": request_id}
    return _frame(kind, chance, fixed)


def response(command: pb.BaseCommand, chance: Random) -> list[bytes]:
    """What a broker says to a command."""
    if command.type == _TYPES.CONNECT:
        return [messages.connected()]
    if command.type == _TYPES.SEND:
        send = command.send
        if chance.random() < 0.05:
            fixed = {"producer_id": send.producer_id, "sequence_id": send.sequence_id}
            return [_frame("send_error", chance, fixed)]
        return [messages.receipt(send.sequence_id, send.producer_id)]
    name = _ANSWERS.get(command.type)
    if name is None:
        return []
    which: Any = getattr(command, str(_TYPES.Name(command.type)).lower())
    fixed = {
        field: getattr(which, field)
        for field in ("request_id", "consumer_id", "producer_id")
        if field in which.DESCRIPTOR.fields_by_name
    }
    if name != "pong" and chance.random() < 0.1:
        name = "error"
    return [_frame(name, chance, fixed)]


def unprompted(chance: Random) -> bytes:
    """What a broker says of itself."""
    holder = chance.randrange(3)
    return _frame(chance.choice(_UNPROMPTED), chance, {"producer_id": holder, "consumer_id": holder})


def delivered(consumer_id: int, entry_id: int, chance: Random) -> bytes:
    """A message for a consumer."""
    count = chance.choice((1, 1, 5))
    more: dict[str, Any] = {"num_messages_in_batch": count} if count > 1 else {}
    if chance.random() < 0.1:
        more["publish_time"] = chance.choice((0, 1_750_000_000_000, 2**63))
    payload = batch(count) if count > 1 else b"hello"
    stamped = chance.choice((None, 1_750_000_000_000))
    return message(entry_id, payload, consumer_id, broker_ms=stamped, **more)
