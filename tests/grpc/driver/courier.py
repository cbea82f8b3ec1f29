"""A gRPC broker unknown to the project, and the plugin with its method map.

The broker is written with grpcio alone. It takes 1 MiB of metadata, and gives binary metadata back. Its
messages are `{1: topic, 2: producer, 3: payload}` for `Send`, and `{1: topic, 2: subscription}` for `Follow`,
whose responses are `{1: payload}`.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc

from sluicegate.api import Method, MethodMap, Role, hookimpl

LARGE_METADATA = [("grpc.max_metadata_size", 1 << 20), ("grpc.absolute_max_metadata_size", 1 << 20)]
SEND, FOLLOW, HEALTH = "/courier.Post/Send", "/courier.Post/Follow", "/courier.Post/Health"


@hookimpl
def sluicegate_method_map() -> MethodMap:
    return MethodMap(
        "courier",
        {
            SEND: Method(Role.PUBLISH, topic=(1,), producer=(2,), payload=(3,)),
            FOLLOW: Method(Role.DISPATCH, topic=(1,), subscription=(2,), payload=(1,)),
        },
    )


def message(*fields: bytes) -> bytes:
    """A protobuf message of strings, numbered from 1; each of less than 16,384 bytes."""
    encoded = b""
    for number, value in enumerate(fields, 1):
        size = len(value)
        length = bytes([size]) if size < 128 else bytes([size & 127 | 128, size >> 7])
        encoded += bytes([number << 3 | 2]) + length + value
    return encoded


class Post(grpc.GenericRpcHandler):
    """The broker: keeps what is sent, and gives it to all followers."""

    def __init__(self) -> None:
        self.received: list[bytes] = []

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        """grpcio asks for the handler of a method."""
        handlers: dict[str, Any] = {
            SEND: grpc.unary_unary_rpc_method_handler(self._send),
            FOLLOW: grpc.unary_stream_rpc_method_handler(self._follow),
            HEALTH: grpc.unary_unary_rpc_method_handler(lambda request, context: b""),
        }
        return handlers.get(handler_call_details.method)

    def _send(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        self.received.append(request)
        binary = [(key, value) for key, value in context.invocation_metadata() if key.endswith("-bin")]
        context.set_trailing_metadata(tuple(binary))
        return b""

    def _follow(self, request: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        yield from (message(each) for each in (b"one", b"two"))


@contextmanager
def courier() -> Iterator[tuple[Post, str]]:
    """The broker and its address, within the block."""
    post = Post()
    server = grpc.server(ThreadPoolExecutor(4), options=LARGE_METADATA)
    server.add_generic_rpc_handlers((post,))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield post, f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()
