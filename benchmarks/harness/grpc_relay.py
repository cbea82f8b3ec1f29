"""A generic proxy on grpc.aio, which knows nothing of what it passes on: `grpc_relay.py PORT UPSTREAM`."""

import asyncio
import sys
from collections.abc import AsyncIterator

import grpc
import grpc.aio

_OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


class _Everything(grpc.GenericRpcHandler):
    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._channel = channel

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[bytes, bytes]":
        method = handler_call_details.method
        call: grpc.aio.StreamStreamMultiCallable[bytes, bytes] = self._channel.stream_stream(method)

        async def relay(requests: AsyncIterator[bytes], _context: object) -> AsyncIterator[bytes]:
            async for response in call(requests):  # its error ends this call too
                yield response

        return grpc.stream_stream_rpc_method_handler(relay)


async def _main(port: int, upstream: int) -> None:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{upstream}", options=_OPTIONS) as channel:
        server = grpc.aio.server(options=_OPTIONS)
        server.add_generic_rpc_handlers((_Everything(channel),))
        server.add_insecure_port(f"127.0.0.1:{port}")
        await server.start()
        await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(_main(int(sys.argv[1]), int(sys.argv[2])))
