"""The producers of one connection."""

from google.protobuf.message import DecodeError

from sluicegate_pulsar.codec import pulsar_pb2 as pb
from sluicegate_pulsar.codec.errors import ProtocolError
from sluicegate_pulsar.codec.frames import has_valid_checksum, split
from sluicegate_pulsar.codec.own_frames import close_producer, send_error
from sluicegate_pulsar.reference.broker_errors import RefusedError
from sluicegate_pulsar.reference.link import Link
from sluicegate_pulsar.reference.topic import Producer, Topic


class Producing:
    """Attaches producers and stores what they send.

    :param link: the client's connection.
    """

    def __init__(self, link: Link) -> None:
        self._link = link
        self._broker = link.broker
        self._producers: dict[int, tuple[Producer, Topic]] = {}

    def attach(self, request: "pb.Producer") -> None:
        """PRODUCER.

        :raises RefusedError: if it cannot attach.
        """
        topic = self._broker.topic(request.topic)
        known = self._producers.get(request.producer_id)
        if known is not None and known[1] is not topic:
            text = f"Producer id {request.producer_id} is in use for {known[1].name.full}"
            raise RefusedError(pb.NOT_ALLOWED_ERROR, text)
        if request.producer_access_mode != pb.Producer.SHARED:
            raise RefusedError(pb.NOT_ALLOWED_ERROR, "the reference broker knows only the access mode Shared")
        if known is None:
            producer = Producer(
                connection=self,
                id=request.producer_id,
                name=request.producer_name or self._broker.new_producer_name(),
                epoch=request.epoch,
                named=bool(request.producer_name) and request.user_provided_producer_name,
            )
            former = topic.attach(producer)
            if former is not None:
                former.connection.forget(former)
            known = self._producers[request.producer_id] = (producer, topic)
        success = pb.ProducerSuccess(
            request_id=request.request_id,
            producer_name=known[0].name,
            last_sequence_id=-1,
            schema_version=b"",
        )
        if request.HasField("schema"):
            success.schema_version = topic.schema_version(request.schema)
        self._link.answer(success)

    def send(self, request: "pb.Send", frame: bytes, now_ms: int) -> None:
        """SEND: store, confirm, deliver.

        :param frame: the whole frame.
        :raises ProtocolError: if there is no such producer, or the frame is malformed; Pulsar closes the
            connection then, too.
        """
        known = self._producers.get(request.producer_id)
        if known is None:
            raise ProtocolError(f"a SEND of producer {request.producer_id}, which is not attached")
        topic = known[1]
        parts = split(frame, 0, len(frame))
        try:
            if not has_valid_checksum(frame, parts):
                raise RefusedError(pb.CHECKSUM_ERROR, "Checksum failed on the broker")
            metadata = _metadata_of(frame[parts.metadata : parts.payload])
            entry = topic.publish(frame[parts.command_end :], metadata, request.num_messages, now_ms)
        except RefusedError as refused:
            self._refuse(request, refused)
            return
        receipt = pb.SendReceipt(
            producer_id=request.producer_id,
            sequence_id=request.sequence_id,
            message_id=topic.id_of(entry.number),
            highest_sequence_id=request.highest_sequence_id,
        )
        self._link.answer(receipt)
        self._broker.pump(topic, now_ms)

    def detach(self, request: "pb.CloseProducer") -> None:
        """CLOSE_PRODUCER.

        :raises RefusedError: if there is no such producer.
        """
        known = self._producers.pop(request.producer_id, None)
        if known is None:
            raise RefusedError(pb.UNKNOWN_ERROR, "Producer was not registered on the connection")
        known[1].detach(known[0])
        self._link.succeed(request.request_id)

    def forget(self, producer: Producer) -> None:
        """Another connection has taken over a producer."""
        self._producers.pop(producer.id, None)

    def close(self, producer: Producer) -> None:
        """Close a producer from the broker's side."""
        known = self._producers.pop(producer.id, None)
        if known is None:
            return
        known[1].detach(producer)
        self._link.send(close_producer(producer.id))

    def lost(self) -> None:
        """The connection is closed."""
        for producer, topic in self._producers.values():
            topic.detach(producer)
        self._producers.clear()

    def _refuse(self, request: "pb.Send", refused: RefusedError) -> None:
        self._link.send(send_error(request.producer_id, request.sequence_id, refused.code, refused.text))


def _metadata_of(raw: bytes) -> "pb.MessageMetadata":
    try:
        return pb.MessageMetadata.FromString(raw)
    except DecodeError as error:
        raise ProtocolError(f"metadata of {len(raw)} bytes that cannot be read: {error}") from error
