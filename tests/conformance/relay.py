"""A gRPC server with threads that passes every call on to another one."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc

from sluicegate_danube.method_map import CONSUMERS

_THREADS = 200
"""Calls that are held, and streams, keep one each."""
_STREAM = CONSUMERS + "ReceiveMessages"


class _Relay(grpc.GenericRpcHandler):
    def __init__(self, channel: Any) -> None:
        self._channel = channel

    def service(self, details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[Any, Any]":
        name = details.method
        if name == _STREAM:
            return grpc.unary_stream_rpc_method_handler(lambda *call: self._stream(name, *call))
        return grpc.unary_unary_rpc_method_handler(lambda *call: self._one(name, *call))

    def _one(self, name: str, request: bytes, context: grpc.ServicerContext) -> bytes:
        try:
            answer: bytes = self._channel.unary_unary(name)(request)
        except grpc.RpcError as error:
            _fail(error, context)
            raise
        return answer

    def _stream(self, name: str, request: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        call = self._channel.unary_stream(name)(request)
        context.add_callback(call.cancel)
        try:
            yield from call
        except grpc.RpcError as error:
            _fail(error, context)


def _fail(error: Any, context: grpc.ServicerContext) -> None:
    context.abort(error.code(), error.details())


@contextmanager
def relay(address: str, interceptor: grpc.ServerInterceptor) -> Iterator[str]:
    """Serve within the block.

    :param address: of the server behind it.
    :param interceptor: of this server.
    :return: its own address.
    """
    pool = ThreadPoolExecutor(_THREADS)
    with grpc.insecure_channel(address) as channel:
        server = grpc.server(pool, interceptors=[interceptor])
        server.add_generic_rpc_handlers((_Relay(channel),))
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        try:
            yield f"127.0.0.1:{port}"
        finally:
            server.stop(None).wait()
            pool.shutdown()
