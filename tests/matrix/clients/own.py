"""Gives each producer and each consumer a client, so a connection, of its own."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any

from sluicegate.demo.clients import DemoClient, DemoConsumer, DemoProducer

Connect = Callable[[str], AbstractAsyncContextManager[DemoClient]]
"""Makes one client of a library, for the gate at an address."""


class _Own:
    """Closes the client with what it was made for."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack

    async def close(self) -> None:
        """Leave."""
        await self._stack.aclose()


class OwnProducer(_Own):
    """A producer and its client."""

    def __init__(self, stack: AsyncExitStack, made: DemoProducer) -> None:
        super().__init__(stack)
        self._made = made
        self.publish = made.publish

    async def close(self) -> None:
        """Leave."""
        await self._made.close()
        await super().close()


class OwnConsumer(_Own):
    """A consumer and its client."""

    def __init__(self, stack: AsyncExitStack, made: DemoConsumer) -> None:
        super().__init__(stack)
        self.receive, self.acknowledge = made.receive, made.acknowledge


class OwnClients:
    """Producers and consumers of the gate at an address."""

    def __init__(self, connect: Connect, address: str) -> None:
        self._connect, self._address = connect, address

    async def producer(self, topic: str, name: str, *, reliable: bool = True) -> OwnProducer:
        """A producer."""
        return OwnProducer(*await self._made(lambda one: one.producer(topic, name, reliable=reliable)))

    async def consumer(
        self, topic: str, subscription: str, name: str, *, exclusive: bool = False, alone: bool = False
    ) -> OwnConsumer:
        """A consumer of a shared or an exclusive subscription."""
        return OwnConsumer(
            *await self._made(lambda one: one.consumer(topic, subscription, name, exclusive=exclusive))
        )

    async def _made(self, make: Callable[[DemoClient], Awaitable[Any]]) -> tuple[AsyncExitStack, Any]:
        async with AsyncExitStack() as stack:
            made = await make(await stack.enter_async_context(self._connect(self._address)))
            return stack.pop_all(), made
