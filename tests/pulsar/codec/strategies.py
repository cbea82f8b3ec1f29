"""Messages as protobuf writes them, and the same fields as no library writes them."""

from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.message import Message
from hypothesis import strategies as st

from sluicegate_pulsar.codec import pulsar_pb2
from sluicegate_pulsar.codec.frames import MAGIC_BROKER_ENTRY, command_frame
from sluicegate_pulsar.codec.pulsar_pb2 import BaseCommand, MessageMetadata, Send
from sluicegate_pulsar.codec.varints import write_uvarint

_SCALARS: dict[int, st.SearchStrategy[Any]] = {
    FieldDescriptor.TYPE_BOOL: st.booleans(),
    FieldDescriptor.TYPE_BYTES: st.binary(max_size=20),
    FieldDescriptor.TYPE_DOUBLE: st.floats(allow_nan=False),
    FieldDescriptor.TYPE_INT32: st.integers(-(2**31), 2**31 - 1),
    FieldDescriptor.TYPE_INT64: st.integers(-(2**63), 2**63 - 1),
    FieldDescriptor.TYPE_STRING: st.text(max_size=20),
    FieldDescriptor.TYPE_UINT32: st.integers(0, 2**32 - 1),
    FieldDescriptor.TYPE_UINT64: st.integers(0, 300) | st.integers(0, 2**64 - 1),
}
_UNKNOWN_FIELDS = st.integers(1000, 2**29 - 1)
_FILE = FileDescriptorProto.FromString(pulsar_pb2.DESCRIPTOR.serialized_pb)
LABELS = {
    (message.name, field.name): field.label for message in _FILE.message_type for field in message.field
}


@st.composite
def messages(draw: st.DrawFn, kind: type[Message], depth: int = 3) -> Any:
    """A message of this kind with any of its fields set."""
    out: Any = kind()
    for field in kind.DESCRIPTOR.fields:
        label = LABELS[kind.DESCRIPTOR.name, field.name]
        required = label == FieldDescriptorProto.LABEL_REQUIRED
        if not required and (depth == 0 or draw(st.booleans())):
            continue
        if label == FieldDescriptorProto.LABEL_REPEATED:
            for _ in range(draw(st.integers(0, 2))):
                if field.message_type is None:
                    getattr(out, field.name).append(draw(_scalar(field)))
                else:
                    below = getattr(out, field.name).add()
                    below.CopyFrom(draw(messages(type(below), depth - 1)))
        elif field.message_type is None:
            setattr(out, field.name, draw(_scalar(field)))
        else:
            below = getattr(out, field.name)
            below.CopyFrom(draw(messages(type(below), max(depth - 1, 0))))
            below.SetInParent()
    return out


def _scalar(field: Any) -> st.SearchStrategy[Any]:
    if field.enum_type is not None:
        return st.sampled_from([value.number for value in field.enum_type.values])
    return _SCALARS[field.type]


@st.composite
def unknown_fields(draw: st.DrawFn) -> bytes:
    """One field that no message has, of any wire type."""
    wire_type = draw(st.sampled_from((0, 1, 2, 5)))
    tag = write_uvarint(draw(_UNKNOWN_FIELDS) << 3 | wire_type)
    if wire_type == 0:
        return tag + write_uvarint(draw(st.integers(0, 2**64 - 1)))
    if wire_type == 2:
        value = draw(st.binary(max_size=200))
        return tag + write_uvarint(len(value)) + value
    size = 8 if wire_type == 1 else 4
    return tag + draw(st.binary(min_size=size, max_size=size))


@st.composite
def scrambled(draw: st.DrawFn, message: Message, often: bool = True) -> bytes:
    """A message's fields in any order, `often` some of them twice, with unknown ones between them."""
    kind = type(message)
    pieces = [draw(unknown_fields()) for _ in range(draw(st.integers(0, 2 if often else 1)))]
    for field, value in message.ListFields():
        if LABELS[kind.DESCRIPTOR.name, field.name] == FieldDescriptorProto.LABEL_REPEATED:
            one: Any = kind()
            getattr(one, field.name).extend(value)
            pieces.append(one.SerializePartialToString())
            continue
        one = kind()
        if field.message_type is None:
            setattr(one, field.name, value)
        else:
            getattr(one, field.name).CopyFrom(value)
            getattr(one, field.name).SetInParent()
        pieces += [one.SerializePartialToString()] * (draw(st.sampled_from((1, 1, 1, 2))) if often else 1)
    return b"".join(draw(st.permutations(pieces)))


@st.composite
def commands(draw: st.DrawFn) -> BaseCommand:
    """Any command that is known here, with what its type calls for."""
    kind = draw(st.sampled_from(sorted(BaseCommand.Type.values())))
    name = BaseCommand.Type.Name(kind).lower()
    command = BaseCommand(type=kind)
    below = getattr(command, name)
    below.CopyFrom(draw(messages(type(below))))
    below.SetInParent()
    return command


def sized(raw: bytes) -> bytes:
    """Bytes after their number in four bytes."""
    return len(raw).to_bytes(4) + raw


def frame_of(raw_command: bytes, rest: bytes = b"") -> bytes:
    """A frame of a serialized command and what follows it."""
    return sized(sized(raw_command) + rest)


def with_broker_entry(frame: bytes, broker_entry: bytes) -> bytes:
    """The same frame with broker entry metadata after its command."""
    end = 8 + int.from_bytes(frame[4:8])
    magic = MAGIC_BROKER_ENTRY.to_bytes(2)
    return frame_of(frame[8:end], magic + sized(broker_entry) + frame[end:])


def without_checksum(frame: bytes) -> bytes:
    """The same frame as clients before protocol version 6 wrote it."""
    end = 8 + int.from_bytes(frame[4:8])
    return frame_of(frame[8:end], frame[end + 6 :])


def a_send(**fields: Any) -> BaseCommand:
    """A SEND."""
    return BaseCommand(type=BaseCommand.SEND, send=Send(**{"producer_id": 1, "sequence_id": 2, **fields}))


def a_metadata(**fields: Any) -> MessageMetadata:
    """The metadata of one message."""
    known = {"producer_name": "p", "sequence_id": 2, "publish_time": 1_800_000_000_000}
    return MessageMetadata(**{**known, **fields})


PING = command_frame(BaseCommand(type=BaseCommand.PING, ping={}))
