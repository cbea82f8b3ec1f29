"""danube-client at its defaults, with its own retries."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from danube import DispatchStrategy
from tests.matrix.clients.own import OwnClients

from sluicegate_danube.demo.clients import DanubeClient, DanubeProducer, called
from sluicegate_danube.demo.clients import clients as demo_client


class StockClient(DanubeClient):
    """A client whose producers are danube-client's own, where the demo's try a message once."""

    async def producer(self, topic: str, name: str, *, reliable: bool = True) -> "StockProducer":
        """A producer that has registered."""
        strategy = DispatchStrategy.RELIABLE if reliable else DispatchStrategy.NON_RELIABLE
        builder = self._made.new_producer().with_topic(topic).with_name(name)
        made = builder.with_dispatch_strategy(strategy).build()
        await called(made.create())
        return StockProducer(made)


class StockProducer(DanubeProducer):
    """One producer."""

    async def close(self) -> None:
        """Fall silent: Danube's producers do not take leave."""
        await self._made.close()


@asynccontextmanager
async def _connect(address: str) -> AsyncIterator[Any]:
    async with demo_client(address) as client:
        stock = StockClient(client._made)
        stock.consumers = client.consumers  # the demo's client closes them
        yield stock


@asynccontextmanager
async def clients(address: str) -> AsyncIterator[OwnClients]:
    """Clients of the gate at an address."""
    yield OwnClients(_connect, address)
