"""What the tests of Danube share. They run on the reference broker, which is no Danube."""

from collections.abc import AsyncIterator

import pytest
from danube import DanubeClient
from tests.danube.support.clients import danube_client

from sluicegate.demo.ports import free_ports
from sluicegate_danube.reference import ReferenceBroker


@pytest.fixture
async def reference() -> AsyncIterator[ReferenceBroker]:
    """A cluster of one broker; while it is stopped, no outgoing connection is given its port."""
    async with ReferenceBroker(port=free_ports(1)) as broker:
        yield broker


@pytest.fixture
async def reference_cluster() -> AsyncIterator[ReferenceBroker]:
    """A cluster of two brokers."""
    async with ReferenceBroker(brokers=2) as broker:
        yield broker


@pytest.fixture
async def client(reference: ReferenceBroker) -> AsyncIterator[DanubeClient]:
    """Danube's own client, straight at the reference broker."""
    async with danube_client(reference.urls[0]) as made:
        yield made


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic that no other test has."""
    name = "".join(char if char.isalnum() else "_" for char in request.node.name)
    return f"/default/{name}"
