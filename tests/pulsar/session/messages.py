"""Frames as clients and brokers send them, and how to read those that the gateway sends."""

from collections.abc import Mapping

from benchmarks.harness.pulsar_bytes import payload_frame

from sluicegate_pulsar.codec import pulsar_pb2 as pb
from sluicegate_pulsar.codec.frames import command_frame, parse_command

TYPES = pb.BaseCommand.Type
TOPIC = "persistent://public/default/orders"
JAVA = "Pulsar-Java-v4.2.4"
PYTHON = "Pulsar-CPP-v4.2.0"


def frame(kind: str, **fields: object) -> bytes:
    """A frame of one command.

    :param kind: name of the command as in the schema, such as `producer_success`.
    :param fields: of the command; a message as a dict.
    """
    return command_frame(_command(kind, **fields))


def _command(kind: str, **fields: object) -> pb.BaseCommand:
    return pb.BaseCommand(type=TYPES.Value(kind.upper()), **{kind: fields})


def connect(version: str = PYTHON, **fields: object) -> bytes:
    """The client's first frame."""
    return frame("connect", client_version=version, protocol_version=20, **fields)


def connected(max_message_size: int = 5 * 2**20) -> bytes:
    """The broker accepts the client."""
    return frame(
        "connected", server_version="Pulsar Server", protocol_version=20, max_message_size=max_message_size
    )


def producer(
    producer_id: int = 0, request_id: int = 1, topic: str = TOPIC, name: str = "", **fields: object
) -> bytes:
    """A client wants to publish to a topic.

    :param name: the producer's name, as the client chose it; the broker chooses one if it is empty.
    """
    if name:
        fields["producer_name"] = name
    return frame("producer", topic=topic, producer_id=producer_id, request_id=request_id, **fields)


def producer_success(request_id: int = 1, name: str = "standalone-0-1", **fields: object) -> bytes:
    """The broker lets a producer in."""
    return frame("producer_success", request_id=request_id, producer_name=name, **fields)


def send(
    sequence_id: int,
    payload: bytes = b"hello",
    producer_id: int = 0,
    command: Mapping[str, object] | None = None,
    **metadata: object,
) -> bytes:
    """A message.

    :param command: further fields of the command.
    :param metadata: further fields of the message's metadata.
    """
    sent = _command("send", producer_id=producer_id, sequence_id=sequence_id, **(command or {}))
    fields = {"producer_name": "standalone-0-1", "sequence_id": sequence_id, "publish_time": 1, **metadata}
    return payload_frame(sent, pb.MessageMetadata(**fields).SerializeToString(), payload)  # type: ignore[arg-type]


def receipt(sequence_id: int, producer_id: int = 0) -> bytes:
    """The broker has stored a message."""
    message_id = {"ledger_id": 1, "entry_id": sequence_id}
    return frame("send_receipt", producer_id=producer_id, sequence_id=sequence_id, message_id=message_id)


def split(stream: bytes) -> tuple[list[bytes], bytes]:
    """Cut a stream into its whole frames and the rest."""
    frames = []
    while len(stream) >= 4 and len(stream) >= 4 + int.from_bytes(stream[:4], "big"):
        stop = 4 + int.from_bytes(stream[:4], "big")
        frames.append(stream[:stop])
        stream = stream[stop:]
    return frames, stream


def parse(data: bytes) -> pb.BaseCommand:
    """The command of one frame."""
    return parse_command(data, 0, len(data))
