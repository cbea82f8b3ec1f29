"""What a package brings to have comparison runs play a broker that the project does not know.

The broker is that of tests/grpc/driver, which keeps what is sent and gives it to all who follow its topic.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

import grpc
from tests.grpc.driver.courier import FOLLOW, SEND, Post, message

from sluicegate_reports.registry import Extension, Kind, System
from sluicegate_reports.runner.clients.base import Delivery, OnDelivery, RefusedError
from sluicegate_reports.runner.plan import ArmPlan, ConsumerPlan, ProducerPlan

REPORTS = Extension(
    systems=(System("courier", label="a courier", unordered_calls=True),),
    kinds={"courier": Kind("{namespace}.{name}", "grpcio", "tests.reports.runner.courier:Driver")},
)
_POLL_S = 0.02


class Driver:
    """A `ClientDriver` of stock gRPC calls."""

    def __init__(self, plan: ArmPlan) -> None:
        self._address = plan.addresses[0]

    def producer(self, plan: ProducerPlan) -> "_Producer":
        return _Producer(self._address, plan)

    def consumer(self, plan: ConsumerPlan) -> "_Consumer":
        return _Consumer(self._address, plan)


class _Client:
    """One client with a connection of its own."""

    def __init__(self, address: str) -> None:
        self._channel = grpc.aio.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)])

    async def close(self) -> None:
        await self._channel.close()


class _Producer(_Client):
    attaches_by_publishing = True

    def __init__(self, address: str, plan: ProducerPlan) -> None:
        super().__init__(address)
        self._names = plan.topic.encode(), plan.name.encode()
        self._send: Any = self._channel.unary_unary(SEND)

    def turned_away(self, refusal: RefusedError) -> bool:
        return refusal.code == "RESOURCE_EXHAUSTED"

    async def attach(self) -> None:
        await self._channel.channel_ready()

    async def publish(self, payload: bytes) -> None:
        try:
            await self._send(message(*self._names, payload))
        except grpc.aio.AioRpcError as error:
            raise RefusedError(error.code().name, str(error.details())) from None


class _Consumer(_Client):
    def __init__(self, address: str, plan: ConsumerPlan) -> None:
        super().__init__(address)
        follow: Any = self._channel.unary_stream(FOLLOW)
        self._follow = partial(follow, message(plan.topic.encode(), plan.subscription.encode()))
        self._reading: asyncio.Task[None] | None = None

    async def attach(self, deliver: OnDelivery) -> None:
        responses = self._follow()
        await responses.initial_metadata()
        self._reading = asyncio.ensure_future(self._read(responses, deliver))

    async def _read(self, responses: Any, deliver: OnDelivery) -> None:
        async for response in responses:
            ((_, payload),) = parts(response)
            deliver(Delivery(payload, None))

    async def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
        await super().close()


def parts(encoded: bytes) -> Iterator[tuple[int, bytes]]:
    """Number and value of the fields of what `message` made."""
    at = 0
    while at < len(encoded):
        number, size, at = encoded[at] >> 3, encoded[at + 1], at + 2
        if size & 128:
            size, at = size & 127 | encoded[at] << 7, at + 1
        yield number, encoded[at : at + size]
        at += size


class Distributing(Post):
    """Gives what is sent to a topic to all who follow it, from its first message on."""

    def __init__(self) -> None:
        super().__init__()
        self._kept: dict[bytes, list[bytes]] = defaultdict(list)

    def _send(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        sent = dict(parts(request))
        self._kept[sent[1]].append(sent[3])
        return b""

    def _follow(self, request: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        kept, at = self._kept[dict(parts(request))[1]], 0
        context.send_initial_metadata(())
        while context.is_active():
            yield from map(message, kept[at : (end := len(kept))])
            at = end
            time.sleep(_POLL_S)


@contextmanager
def distributing() -> Iterator[str]:
    """The broker's address, within the block."""
    server = grpc.server(ThreadPoolExecutor(16))
    server.add_generic_rpc_handlers((Distributing(),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()
