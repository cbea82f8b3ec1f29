"""Replication from edge brokers: danube.edge.EdgeReplicatorService. No client ships its stubs."""

from collections.abc import AsyncIterator

import grpc.aio
from danube.proto import DanubeApi_pb2 as pb
from google.protobuf.message import DecodeError

from sluicegate_danube.reference.answering import Context
from sluicegate_danube.reference.broker_errors import RefusedError
from sluicegate_danube.reference.node import Node
from sluicegate_danube.wire import bytes_field, fields, text_field, varint, varint_field

SERVICE = "danube.edge.EdgeReplicatorService"
_TOPIC, _MESSAGES, _LAST = 1, 2, 3
"""Fields of ReplicateBatch; the first and the last of a ReplicateAck say the same as 1 and 2."""


def batch(topic: str, messages: list[pb.StreamMessage], last: int) -> bytes:
    """An encoded ReplicateBatch.

    :param last: the edge's offset of the last message, by which a batch that comes again is known.
    """
    encoded = b"".join(bytes_field(_MESSAGES, message.SerializeToString()) for message in messages)
    return text_field(_TOPIC, topic) + encoded + varint_field(_LAST, last)


class Edge:
    """The service of one broker, as Danube 0.15.1 has it: it asks for no producer, and enforces nothing."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._last: dict[str, int] = {}

    async def register(self, request: bytes, _: Context) -> bytes:
        """RegisterEdge: its topics are created when their first batch arrives."""
        return varint_field(1, 1) + varint_field(3, 1)

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
            except (ValueError, DecodeError) as error:
                await context.abort(grpc.StatusCode.INTERNAL, f"ingestion failed: {error}")

    def _store(self, request: bytes) -> bytes:
        topic, last, messages = "", 0, []
        for field, _, _, begin, end in fields(request):
            if field == _TOPIC:
                topic = request[begin:end].decode()
            elif field == _MESSAGES:
                messages.append(pb.StreamMessage.FromString(request[begin:end]))
            elif field == _LAST:
                last = varint(request, begin)[0]
        if last > self._last.get(topic, 0):
            found = self._node.cluster.find(topic) or self._node.cluster.make(topic, True)
            for message in messages:
                found.publish(message)
            self._last[topic] = last
        return text_field(1, topic) + varint_field(2, last)

    def add_to(self, server: grpc.aio.Server) -> None:
        """Register it with a server."""
        handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
            "RegisterEdge": grpc.unary_unary_rpc_method_handler(self.register),
            "EdgeHeartbeat": grpc.unary_unary_rpc_method_handler(self.heartbeat),
            "ReplicateData": grpc.stream_stream_rpc_method_handler(self.replicate),
        }
        server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, handlers)])
