"""Danube's doors: the proxy, and the interceptors of gRPC's servers and channels of both kinds."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import grpc.aio
from tests.conformance.danube_stubs import StubConsumer, StubProducer, Stubs, consume, produce
from tests.danube.support.gates import gate

from sluicegate.engine.state import TopicState
from sluicegate.testing.conformance import Ability, DoorKind, Driver, Setup
from sluicegate.testing.sink import RecordingSink
from sluicegate_danube.plugin import DanubeDriver
from sluicegate_danube.reference import ReferenceBroker

_OWN = [("grpc.use_local_subchannel_pool", 1)]
"""A connection of its own: gRPC shares those of equal channels in one process."""


class StubDoor:
    """A way to the reference broker for clients by bare stubs.

    Each client has a channel of its own, as applications have.
    """

    tells_reasons = True

    def __init__(
        self,
        connect: Callable[[], Stubs],
        sink: RecordingSink,
        file: Path,
        state: Callable[[str], TopicState],
    ) -> None:
        self._connect = connect
        self._proven: set[str] = set()
        self.sink, self.file, self.state = sink, file, state

    async def producer(self, topic: str, name: str, principal: str) -> StubProducer:
        """Register a producer."""
        await self._prove(principal)
        return await produce(self._connect(), topic, name, principal)

    async def consumer(self, topic: str, subscription: str, name: str, principal: str) -> StubConsumer:
        """Attach a consumer."""
        await self._prove(principal)
        return await consume(self._connect(), topic, subscription, name, principal)

    async def _prove(self, principal: str) -> None:
        """Have the broker accept a token, by a call for another topic: before, it is only a claim."""
        if principal and principal not in self._proven:
            self._proven.add(principal)
            await produce(self._connect(), "/default/proving", principal, principal)


@asynccontextmanager
async def proxy(setup: Setup) -> AsyncIterator[StubDoor]:
    """The wire proxy in front of the broker."""
    async with (
        ReferenceBroker() as broker,
        gate(setup.directory, broker.addresses, setup.policies, **setup.entry) as through,
        AsyncExitStack() as stack,
    ):
        for topic in setup.topics:
            broker.create_topic(topic, reliable=True)
        channel = await stack.enter_async_context(grpc.aio.insecure_channel(through.address, _OWN))
        yield StubDoor(lambda: Stubs(channel), through.sink, setup.directory / "gateway.yaml", through.state)


DRIVER = Driver(
    "danube",
    DanubeDriver.capabilities,
    {
        "proxy": DoorKind(
            proxy, frozenset({Ability.ACKNOWLEDGE, Ability.HEADERS, Ability.SCHEMA, Ability.PRINCIPAL})
        ),
    },
    topic=lambda name: f"/default/{name}",
)
