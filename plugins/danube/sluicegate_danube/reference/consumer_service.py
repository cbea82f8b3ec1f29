"""Consumers: danube.ConsumerService."""

from collections.abc import AsyncIterator

import grpc.aio
from danube.proto import DanubeApi_pb2 as pb
from danube.proto import DanubeApi_pb2_grpc as services
from grpc import StatusCode

from sluicegate_danube.reference.answering import Context, answering
from sluicegate_danube.reference.broker_errors import RefusedError
from sluicegate_danube.reference.node import Service
from sluicegate_danube.reference.subscription import Subscription


class Consuming(Service, services.ConsumerServiceServicer):  # type: ignore[misc]  # generated without types
    """danube.ConsumerService of one broker."""

    @answering
    def Subscribe(self, request: pb.ConsumerRequest, context: Context) -> pb.ConsumerResponse:  # noqa: N802
        """Attach a consumer; the first one of a subscription creates the subscription."""
        topic = self._node.cluster.served(request.topic_name, self._node.serving(context))
        if topic is None:
            text = f"Unable to find the topic: {request.topic_name}"
            raise RefusedError(StatusCode.NOT_FOUND, text)
        consumer = self._node.cluster.add_consumer(topic, request)
        return pb.ConsumerResponse(
            request_id=request.request_id, consumer_id=consumer.consumer_id, consumer_name=consumer.name
        )

    async def ReceiveMessages(  # noqa: N802
        self, request: pb.ReceiveRequest, context: Context
    ) -> AsyncIterator[pb.StreamMessage]:
        """Messages for a consumer, until it opens another stream."""
        entry = self._node.cluster.consumer(request.consumer_id, self._node.serving(context))
        if entry is None:
            text = f"The consumer with the id {request.consumer_id} does not exist"
            await context.abort(grpc.StatusCode.NOT_FOUND, text)
        subscription, consumer = entry
        session = subscription.attach(consumer)
        try:
            while (message := await consumer.next(session)) is not None:
                own = pb.StreamMessage()
                own.CopyFrom(message)
                own.subscription_name = consumer.subscription
                yield own
        finally:
            if consumer.owns(session):
                subscription.leave(consumer)

    @answering
    def Ack(self, request: pb.AckRequest, context: Context) -> pb.AckResponse:  # noqa: N802
        """A consumer acknowledges a message."""
        self._subscription(request, context).acknowledge(request.msg_id.topic_offset)
        return pb.AckResponse(request_id=request.request_id)

    @answering
    def Nack(self, request: pb.NackRequest, context: Context) -> pb.NackResponse:  # noqa: N802
        """A consumer asks for redelivery of a message."""
        named = (
            request.delay_ms if request.HasField("delay_ms") else self._node.cluster.settings.redelivery_ms
        )
        self._subscription(request, context).refuse(request.msg_id.topic_offset, named / 1000)
        return pb.NackResponse(request_id=request.request_id)

    def _subscription(self, request: pb.AckRequest | pb.NackRequest, context: Context) -> Subscription:
        topic = self._node.cluster.served(request.msg_id.topic_name, self._node.serving(context))
        subscription = topic.subscriptions.get(request.subscription_name) if topic is not None else None
        if subscription is None:
            raise RefusedError(StatusCode.INTERNAL, "Error acknowledging message: Subscription not found")
        return subscription
