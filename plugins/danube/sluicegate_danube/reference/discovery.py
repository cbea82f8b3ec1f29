"""Look-ups and health checks: danube.Discovery, danube.HealthCheck."""

from danube.proto import DanubeApi_pb2 as pb
from danube.proto import DanubeApi_pb2_grpc as services
from grpc import StatusCode

from sluicegate_danube.reference.answering import Context, answering
from sluicegate_danube.reference.broker_errors import RefusedError
from sluicegate_danube.reference.node import Service


class Discovery(Service, services.DiscoveryServicer):  # type: ignore[misc]  # generated without types
    """danube.Discovery of one broker, which knows the owner of every topic of the cluster."""

    @answering
    def TopicLookup(  # noqa: N802
        self, request: pb.TopicLookupRequest, context: Context
    ) -> pb.TopicLookupResponse:
        """The broker that serves a topic, and the address to dial."""
        served_by = self._node.served_by(request.topic, context)
        if served_by is None:
            text = f"Unable to find the requested topic: {request.topic}"
            raise RefusedError(StatusCode.NOT_FOUND, text)
        own, connect_url, broker_url = served_by
        kinds = pb.TopicLookupResponse
        return pb.TopicLookupResponse(
            request_id=request.request_id,
            response_type=kinds.Connect if own else kinds.Redirect,
            connect_url=connect_url,
            broker_url=broker_url,
            proxy=self._node.cluster.settings.proxy,
        )

    @answering
    def TopicPartitions(  # noqa: N802
        self, request: pb.TopicLookupRequest, _: Context
    ) -> pb.TopicPartitionsResponse:
        """The partitions of a topic; itself if it has none."""
        partitions = self._node.cluster.partitions(request.topic)
        return pb.TopicPartitionsResponse(request_id=request.request_id, partitions=partitions)


class Health(Service, services.HealthCheckServicer):  # type: ignore[misc]  # generated without types
    """danube.HealthCheck of one broker."""

    @answering
    def HealthCheck(self, request: pb.HealthCheckRequest, context: Context) -> pb.HealthCheckResponse:  # noqa: N802
        """Whether a producer or a consumer is still attached; if not, its client reconnects."""
        broker = self._node.serving(context)
        if request.client == pb.HealthCheckRequest.Producer:
            good = self._node.cluster.topic_of(request.id, broker) is not None
        else:
            entry = self._node.cluster.consumer(request.id, broker)
            good = entry is not None and entry[1].attached
        answers = pb.HealthCheckResponse
        return pb.HealthCheckResponse(status=answers.OK if good else answers.CLOSE)
