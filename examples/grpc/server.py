"""A broker of about twenty lines with policies: python server.py 50051 (needs grpcio-tools)."""

import asyncio
import sys
from collections import defaultdict
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path
from typing import Any

import grpc

from sluicegate.api import Method, MethodMap, PolicyEngine, Role
from sluicegate_grpc.aio import PolicyServerInterceptor

HERE = Path(__file__).parent
METHODS = {
    "/tiny.Tiny/Send": Method(Role.PUBLISH, topic=(1,), producer=(2,), payload=(3,)),
    "/tiny.Tiny/Follow": Method(
        Role.DISPATCH, topic=(1,), subscription=(2,), consumer=(3,), payload=(2,), position=(1,)
    ),
}
sys.path.append(str(HERE))
messages, services = grpc.protos_and_services("tiny.proto")  # type: ignore[attr-defined]


class Tiny(services.TinyServicer):  # type: ignore[misc, name-defined]
    """Keeps every message in memory."""

    def __init__(self) -> None:
        self.logs: dict[str, list[bytes]] = defaultdict(list)
        self.grown = asyncio.Condition()

    async def Send(self, request: Any, context: Any) -> Any:  # noqa: N802 - as in the proto
        """Store a message."""
        async with self.grown:
            self.logs[request.topic].append(request.payload)
            self.grown.notify_all()
        return messages.Published(offset=len(self.logs[request.topic]) - 1)

    async def Follow(self, request: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802 - as in the proto
        """Stream a topic's messages from the first one on."""
        log = self.logs[request.topic]
        for offset in count():
            async with self.grown:
                while offset >= len(log):
                    await self.grown.wait()
            yield messages.Message(offset=offset, payload=log[offset])


async def start(engine: PolicyEngine, port: int) -> tuple[grpc.aio.Server, int]:
    policies = PolicyServerInterceptor(engine, MethodMap("service", METHODS))
    server = grpc.aio.server(interceptors=[policies])
    services.add_TinyServicer_to_server(Tiny(), server)
    port = server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    return server, port


async def main() -> None:
    with PolicyEngine.from_file(HERE / "policies.yaml") as engine:
        server, port = await start(engine, int(sys.argv[1]))
        print(f"listening on 127.0.0.1:{port}")
        await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(main())
