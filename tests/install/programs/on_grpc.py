"""One message passes and one is refused: grpcio against a small server with the interceptor."""

import asyncio
import json
from pathlib import Path
from typing import Any

import grpc
from tests.install.programs.gate import LARGE, SMALL, TOPICS, tell

from sluicegate.embedded import PolicyEngine
from sluicegate.model import Method, MethodMap, Role
from sluicegate_grpc.aio import PolicyServerInterceptor

SEND = "/shop.Broker/Send"
METHODS = MethodMap("service", {SEND: Method(Role.PUBLISH, topic=(1,), payload=(2,))})
POLICIES = {
    "brokers": [{"name": "shop", "system": "service"}],
    "decisions": {"enabled": False},
    "policies": {"broker": {"max_message_size": "1KiB"}},
}


def request(payload: bytes) -> bytes:
    """A protobuf message: topic and payload."""
    topic = TOPICS["danube"].encode()
    size = bytes((len(payload) & 0x7F | 0x80, len(payload) >> 7))
    return bytes((0x0A, len(topic))) + topic + bytes((0x12,)) + size + payload


async def answer(sent: bytes, context: object) -> bytes:
    return b""


async def main() -> None:
    send: Any = grpc.unary_unary_rpc_method_handler(answer)
    handlers = grpc.method_handlers_generic_handler("shop.Broker", {"Send": send})
    with PolicyEngine.from_file("policies.yaml") as engine:
        server = grpc.aio.server(interceptors=[PolicyServerInterceptor(engine, METHODS)])
        server.add_generic_rpc_handlers([handlers])
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            publish: Any = channel.unary_unary(SEND)
            await publish(request(SMALL))
            try:
                await publish(request(LARGE))
            except grpc.RpcError as error:
                tell(error)
        await server.stop(0)


Path("policies.yaml").write_text(json.dumps(POLICIES))
asyncio.run(main())
