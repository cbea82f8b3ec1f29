"""pulsar-client at its defaults, which is the C++ client below its Python."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.matrix.clients.own import OwnClients

from sluicegate_pulsar.demo.clients import clients as connect


@asynccontextmanager
async def clients(address: str) -> AsyncIterator[OwnClients]:
    """Clients of the gate at an address."""
    yield OwnClients(connect, address)
