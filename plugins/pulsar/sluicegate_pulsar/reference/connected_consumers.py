"""The consumers of one connection."""

import secrets
from struct import Struct
from typing import NamedTuple

from sluicegate_pulsar.codec import pulsar_pb2 as pb
from sluicegate_pulsar.codec.frames import MAGIC_BROKER_ENTRY
from sluicegate_pulsar.codec.own_frames import close_consumer
from sluicegate_pulsar.reference.broker_errors import RefusedError
from sluicegate_pulsar.reference.consumers import Command, Consumer, Deliver, Disconnect, TellActive
from sluicegate_pulsar.reference.link import Link
from sluicegate_pulsar.reference.stored_entry import Entry
from sluicegate_pulsar.reference.subscription import Subscription
from sluicegate_pulsar.reference.topic import Topic

_entry_head = Struct(">HI").pack
_NOT_FOUND = "Consumer not found"


class _Attached(NamedTuple):
    consumer: Consumer
    topic: Topic
    subscription: Subscription


class Consuming:
    """Attaches consumers, and carries out the commands of their subscriptions.

    :param link: the client's connection.
    """

    def __init__(self, link: Link) -> None:
        self._link = link
        self._broker = link.broker
        self._attached: dict[int, _Attached] = {}

    def attach(self, request: "pb.Subscribe", now_ms: int) -> None:
        """SUBSCRIBE.

        :raises RefusedError: if it cannot attach.
        """
        # A client that did not wait for the answer may ask again.
        known = request.consumer_id in self._attached
        commands = [] if known else self._attach(request, now_ms)
        self._link.succeed(request.request_id)
        self._broker.carry_out(self._attached[request.consumer_id].subscription, commands)

    def flow(self, request: "pb.Flow", now_ms: int) -> None:
        """FLOW; ignored for a consumer that is closed."""
        attached = self._attached.get(request.consumer_id)
        if attached is not None:
            subscription = attached.subscription
            commands = subscription.flow(attached.consumer, request.message_permits, now_ms)
            self._broker.carry_out(subscription, commands)

    def acknowledge(self, request: "pb.Ack", now_ms: int) -> None:
        """ACK, answered if the client asks for it.

        Parts of a batch are not acknowledged, as in a Pulsar without acknowledgement at batch index level:
        the entry counts once the client names it as a whole.
        """
        response = pb.AckResponse(consumer_id=request.consumer_id, request_id=request.request_id)
        try:
            attached = self._of(request.consumer_id)
            subscription = attached.subscription
            numbers = [
                message_id.entry_id
                for message_id in request.message_id
                if message_id.ledger_id == attached.topic.ledger and not any(message_id.ack_set)
            ]
            if request.ack_type == pb.Ack.CUMULATIVE:
                commands = subscription.acknowledge_upto(max(numbers, default=-1), now_ms)
            else:
                commands = subscription.acknowledge(numbers, now_ms)
        except RefusedError as refused:
            response.error, response.message = refused.code, refused.text
        else:
            self._broker.carry_out(subscription, commands)
        if request.HasField("request_id"):
            self._link.answer(response)

    def redeliver(self, request: "pb.RedeliverUnacknowledgedMessages", now_ms: int) -> None:
        """REDELIVER_UNACKNOWLEDGED_MESSAGES; ignored for a consumer that is closed."""
        attached = self._attached.get(request.consumer_id)
        if attached is None:
            return
        attached.consumer.epoch = max(attached.consumer.epoch, request.consumer_epoch)
        numbers = [message_id.entry_id for message_id in request.message_ids]
        commands = attached.subscription.redeliver(attached.consumer, numbers, now_ms)
        self._broker.carry_out(attached.subscription, commands)

    def seek(self, request: "pb.Seek", now_ms: int) -> None:
        """SEEK, to a message or a time. All consumers of the subscription are closed and reconnect.

        :raises RefusedError: if there is no such consumer.
        """
        attached = self._of(request.consumer_id)
        if request.HasField("message_id"):
            first = attached.topic.entry_at(request.message_id)
        else:
            first = attached.topic.entry_after(request.message_publish_time)
        self._broker.carry_out(attached.subscription, attached.subscription.seek(first))
        self._link.succeed(request.request_id)

    def last_message_id(self, request: "pb.GetLastMessageId") -> None:
        """GET_LAST_MESSAGE_ID.

        :raises RefusedError: if there is no such consumer.
        """
        attached = self._of(request.consumer_id)
        mark_delete = attached.topic.id_of(attached.subscription.cursor.mark_delete)
        response = pb.GetLastMessageIdResponse(
            request_id=request.request_id,
            last_message_id=attached.topic.last_id(),
            consumer_mark_delete_position=mark_delete,
        )
        self._link.answer(response)

    def detach(self, request: "pb.CloseConsumer", now_ms: int) -> None:
        """CLOSE_CONSUMER.

        :raises RefusedError: if there is no such consumer.
        """
        self._detach(self._of(request.consumer_id), now_ms)
        self._link.succeed(request.request_id)

    def unsubscribe(self, request: "pb.Unsubscribe", now_ms: int) -> None:
        """UNSUBSCRIBE: remove the subscription.

        :raises RefusedError: if there is no such consumer, or if it is not the only one.
        """
        attached = self._of(request.consumer_id)
        if len(attached.subscription.consumers) > 1 and not request.force:
            text = "Unconnected or shared consumer attempting to unsubscribe"
            raise RefusedError(pb.METADATA_ERROR, text)
        others = attached.subscription.disconnect()
        attached.topic.drop(attached.subscription)
        del self._attached[request.consumer_id]
        self._broker.carry_out(
            attached.subscription, [other for other in others if other.consumer is not attached.consumer]
        )
        self._link.succeed(request.request_id)

    def carry_out(self, command: Command) -> None:
        """Carry out the commands of a subscription."""
        consumer = command.consumer
        if isinstance(command, Deliver):
            self._deliver(command)
        elif isinstance(command, TellActive):
            change = pb.ActiveConsumerChange(consumer_id=consumer.id, is_active=command.active)
            self._link.answer(change)
        else:
            self._disconnect(command)

    def lost(self, now_ms: int) -> None:
        """The connection is closed."""
        for attached in list(self._attached.values()):
            self._detach(attached, now_ms)

    def _attach(self, request: "pb.Subscribe", now_ms: int) -> list[Command]:
        if not request.force_topic_creation and request.topic not in self._broker.topics:
            raise RefusedError(pb.TOPIC_NOT_FOUND, f"Topic {request.topic} does not exist")
        topic = self._broker.topic(request.topic)
        subscription = topic.subscription(request)
        consumer = Consumer(
            connection=self,
            id=request.consumer_id,
            name=request.consumer_name or secrets.token_hex(3),
            priority=request.priority_level,
            ranges=tuple((part.start, part.end) for part in request.key_shared_meta.hash_ranges),
            epoch=request.consumer_epoch,
        )
        commands = subscription.attach(consumer, request.sub_type, now_ms, request.key_shared_meta)
        if request.HasField("schema"):
            topic.schema_version(request.schema)
        self._attached[consumer.id] = _Attached(consumer, topic, subscription)
        return commands

    def _of(self, consumer_id: int) -> _Attached:
        attached = self._attached.get(consumer_id)
        if attached is None:
            raise RefusedError(pb.METADATA_ERROR, _NOT_FOUND)
        return attached

    def _detach(self, attached: _Attached, now_ms: int) -> None:
        del self._attached[attached.consumer.id]
        commands = attached.subscription.detach(attached.consumer, now_ms)
        self._end_of_reader(attached)
        self._broker.carry_out(attached.subscription, commands)

    def _disconnect(self, command: Disconnect) -> None:
        attached = self._attached.pop(command.consumer.id, None)
        if attached is None:
            return
        self._end_of_reader(attached)
        self._link.send(close_consumer(command.consumer.id))

    def _end_of_reader(self, attached: _Attached) -> None:
        if not attached.subscription.durable and not attached.subscription.consumers:
            attached.topic.drop(attached.subscription)

    def _deliver(self, command: Deliver) -> None:
        consumer, entry = command.consumer, command.entry
        attached = self._attached[consumer.id]
        message = pb.Message(
            consumer_id=consumer.id,
            message_id=attached.topic.id_of(entry.number),
            redelivery_count=command.redeliveries,
        )
        if consumer.epoch:
            message.consumer_epoch = consumer.epoch
        data = entry.data
        if self._link.wants_entry_metadata:
            data = _entry_metadata(entry) + data
        self._link.deliver(message, data)


def _entry_metadata(entry: Entry) -> bytes:
    """The metadata that a broker adds to an entry for clients that ask for it (PIP-70, PIP-90)."""
    index = entry.first_index + entry.messages - 1
    raw = pb.BrokerEntryMetadata(broker_timestamp=entry.stored_ms, index=index).SerializeToString()
    return _entry_head(MAGIC_BROKER_ENTRY, len(raw)) + raw
