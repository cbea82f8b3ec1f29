"""Producers: danube.ProducerService."""

from danube.proto import DanubeApi_pb2 as pb
from danube.proto import DanubeApi_pb2_grpc as services
from grpc import StatusCode

from sluicegate_danube.reference.answering import Context, answering
from sluicegate_danube.reference.broker_errors import RefusedError
from sluicegate_danube.reference.node import Service
from sluicegate_danube.reference.topic import Topic


class Producing(Service, services.ProducerServiceServicer):  # type: ignore[misc]  # generated without types
    """danube.ProducerService of one broker."""

    @answering
    def CreateProducer(self, request: pb.ProducerRequest, context: Context) -> pb.ProducerResponse:  # noqa: N802
        """Attach a producer; the first one of a topic creates the topic."""
        topic = self._topic(request, self._node.serving(context))
        producer_id = self._node.cluster.add_producer(topic, request.producer_name)
        return pb.ProducerResponse(
            request_id=request.request_id, producer_id=producer_id, producer_name=request.producer_name
        )

    @answering
    def SendMessage(self, request: pb.StreamMessage, context: Context) -> pb.MessageResponse:  # noqa: N802
        """Store a message and deliver it to waiting consumers."""
        producer_id = request.msg_id.producer_id
        topic = self._node.cluster.topic_of(producer_id, self._node.serving(context))
        if topic is None:
            text = f"The producer with id {producer_id} does not exist"
            raise RefusedError(StatusCode.NOT_FOUND, text)
        if request.msg_id.topic_name != topic.name:
            text = f"Unable to publish the message: the producer {producer_id} is not attached to this topic"
            raise RefusedError(StatusCode.PERMISSION_DENIED, text)
        topic.publish(request)
        return pb.MessageResponse(request_id=request.request_id)

    def _topic(self, request: pb.ProducerRequest, broker: int) -> Topic:
        cluster = self._node.cluster
        reliable = request.dispatch_strategy == pb.Reliable
        topic = cluster.served(request.topic_name, broker)
        if topic is None:
            topic = cluster.make(request.topic_name, reliable)
            if cluster.brokers > 1:
                # As in a cluster of Danube, where the load manager decides which broker owns the topic.
                text = "The topic was created, need to redo the lookup to find its broker"
                raise RefusedError(StatusCode.UNAVAILABLE, text)
        if topic.reliable != reliable:
            text = "Producer requested dispatch strategy does not match topic strategy"
            raise RefusedError(StatusCode.FAILED_PRECONDITION, text)
        self._assign_schema(topic, request.schema_ref.subject)
        return topic

    def _assign_schema(self, topic: Topic, subject: str) -> None:
        if not subject or subject == topic.schema_subject:
            return
        if topic.schema_subject:
            text = f"Topic {topic.name} uses the schema subject {topic.schema_subject}, not {subject}"
            raise RefusedError(StatusCode.FAILED_PRECONDITION, text)
        if self._node.cluster.schemas.find(subject) is None:
            text = f"Topic {topic.name} cannot use the schema subject {subject}: it is not registered"
            raise RefusedError(StatusCode.FAILED_PRECONDITION, text)
        self._node.cluster.assign_schema(topic, subject)
