"""Replication from edge brokers: danube.edge.EdgeReplicatorService. No client ships its stubs."""

from collections.abc import AsyncIterator

import grpc.aio
from danube.proto import DanubeApi_pb2 as pb
from google.protobuf.message import DecodeError

from sluicegate_danube.reference.answering import Context
from sluicegate_danube.reference.broker_errors import RefusedError
from sluicegate_danube.reference.node import Node, Service
from sluicegate_danube.sluicegate_danube_pb2 import EdgeResponse, ReplicateAck, ReplicateBatch

SERVICE = "danube.edge.EdgeReplicatorService"


class Edge(Service):
    """The service of one broker, as Danube 0.15.1 has it: it asks for no producer, and enforces nothing."""

    def __init__(self, node: Node) -> None:
        super().__init__(node)
        self._last: dict[str, int] = {}

    async def register(self, request: bytes, _: Context) -> bytes:
        """RegisterEdge: its topics are created when their first batch arrives."""
        return EdgeResponse(accepted=True, is_new=True).SerializeToString()

    async def heartbeat(self, request: bytes, _: Context) -> bytes:
        """EdgeHeartbeat: answers that nothing has changed."""
        return b""

    async def replicate(self, requests: AsyncIterator[bytes], context: Context) -> AsyncIterator[bytes]:
        """ReplicateData: store each batch that is new, and acknowledge it."""
        async for request in requests:
            try:
                yield self._store(request)
            except RefusedError as error:
                await context.abort(error.code, error.text)
            except DecodeError as error:
                await context.abort(grpc.StatusCode.INTERNAL, f"ingestion failed: {error}")

    def _store(self, request: bytes) -> bytes:
        batch = ReplicateBatch.FromString(request)
        messages = [pb.StreamMessage.FromString(message) for message in batch.messages]
        if batch.last_offset > self._last.get(batch.topic, 0):
            topic = self._node.cluster.find(batch.topic) or self._node.cluster.make(batch.topic, True)
            for message in messages:
                topic.publish(message)
            self._last[batch.topic] = batch.last_offset
        return ReplicateAck(topic=batch.topic, last_offset=batch.last_offset).SerializeToString()

    def add_to(self, server: grpc.aio.Server) -> None:
        """Register it with a server."""
        handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
            "RegisterEdge": grpc.unary_unary_rpc_method_handler(self.register),
            "EdgeHeartbeat": grpc.unary_unary_rpc_method_handler(self.heartbeat),
            "ReplicateData": grpc.stream_stream_rpc_method_handler(self.replicate),
        }
        server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, handlers)])
