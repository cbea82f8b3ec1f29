"""What the parts of a connection share: the broker, and responses to one client."""

from collections.abc import Callable
from struct import Struct

from google.protobuf.message import Message

from sluicegate_pulsar.codec import pulsar_pb2 as pb
from sluicegate_pulsar.codec.frames import command_of, frame_of
from sluicegate_pulsar.codec.own_frames import error, success
from sluicegate_pulsar.reference.broker import Broker
from sluicegate_pulsar.reference.broker_errors import RefusedError

_sizes = Struct(">II").pack


class Link:
    """Responses to one client.

    :param broker: the broker that requests are about.
    :param send: sends bytes to the client, in order.
    """

    def __init__(self, broker: Broker, send: Callable[[bytes], None]) -> None:
        self.broker = broker
        self.send = send
        self.wants_entry_metadata = False
        """True if MESSAGE frames are to carry broker entry metadata."""

    def answer(self, message: Message) -> None:
        """Send the command that holds a message."""
        self.send(frame_of(message))

    def deliver(self, message: "pb.Message", data: bytes) -> None:
        """Send a MESSAGE followed by what a producer sent, with its checksum unchanged."""
        raw = command_of(message).SerializeToString()
        self.send(b"".join((_sizes(len(raw) + 4 + len(data), len(raw)), raw, data)))

    def succeed(self, request_id: int) -> None:
        """Answer that a request succeeded."""
        self.send(success(request_id))

    def refuse(self, request_id: int, refused: RefusedError) -> None:
        """Answer that a request failed, and why."""
        self.send(error(request_id, refused.code, refused.text))
