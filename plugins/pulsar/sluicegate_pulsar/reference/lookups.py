"""Lookups, lists of topics and schemas."""

from sluicegate_pulsar.codec import pulsar_pb2 as pb
from sluicegate_pulsar.reference.broker_errors import RefusedError
from sluicegate_pulsar.reference.link import Link
from sluicegate_pulsar.reference.topic_names import parse_name


class Lookups:
    """Answers one client's requests about topics.

    :param link: the client's connection.
    """

    def __init__(self, link: Link) -> None:
        self._link = link
        self._broker = link.broker

    def lookup(self, request: "pb.Lookup") -> None:
        """LOOKUP: this broker owns all topics."""
        response = pb.LookupResponse(request_id=request.request_id)
        try:
            parse_name(request.topic)
        except RefusedError as refused:
            response.response = pb.LookupResponse.FAILED
            response.error, response.message = refused.code, refused.text
        else:
            response.response = pb.LookupResponse.CONNECT
            response.broker_service_url = self._broker.service_url
            response.authoritative = True
            response.proxy_through_service_url = False
        self._link.answer(response)

    def partitions(self, request: "pb.PartitionedMetadata") -> None:
        """PARTITIONED_METADATA: 0 for a topic without partitions, and for one that does not exist yet."""
        response = pb.PartitionedMetadataResponse(request_id=request.request_id)
        try:
            name = parse_name(request.topic)
        except RefusedError as refused:
            response.response = pb.PartitionedMetadataResponse.FAILED
            response.error, response.message = refused.code, refused.text
        else:
            response.response = pb.PartitionedMetadataResponse.SUCCESS
            response.partitions = self._broker.partitions.get(name.full, 0)
        self._link.answer(response)

    def topics(self, request: "pb.GetTopicsOfNamespace") -> None:
        """GET_TOPICS_OF_NAMESPACE: all of the requested kind; the client applies its pattern itself."""
        response = pb.GetTopicsOfNamespaceResponse(request_id=request.request_id, filtered=False)
        for topic in self._broker.topics_of(request.namespace):
            persistent = request.mode == pb.GetTopicsOfNamespace.PERSISTENT
            if request.mode == pb.GetTopicsOfNamespace.ALL or topic.name.persistent == persistent:
                response.topics.append(topic.name.full)
        self._link.answer(response)

    def schema(self, request: "pb.GetSchema") -> None:
        """GET_SCHEMA: the schema of a version, else the latest."""
        response = pb.GetSchemaResponse(request_id=request.request_id)
        try:
            schemas = self._broker.topic(request.topic).schemas
            wanted = request.schema_version
            number = int.from_bytes(wanted, "big") if wanted else len(schemas) - 1
            if not 0 <= number < len(schemas):
                raise RefusedError(pb.TOPIC_NOT_FOUND, f"No schema of version {number} for {request.topic}")
        except RefusedError as refused:
            response.error_code, response.error_message = refused.code, refused.text
        else:
            response.schema.CopyFrom(schemas[number])
            response.schema_version = number.to_bytes(8, "big")
        self._link.answer(response)

    def make_schema(self, request: "pb.GetOrCreateSchema") -> None:
        """GET_OR_CREATE_SCHEMA: the version of a schema."""
        response = pb.GetOrCreateSchemaResponse(request_id=request.request_id)
        try:
            response.schema_version = self._broker.topic(request.topic).schema_version(request.schema)
        except RefusedError as refused:
            response.error_code, response.error_message = refused.code, refused.text
        self._link.answer(response)
