from collections.abc import Iterator

import pulsar
import pytest
from tests.pulsar.reference.running import Running, client, running


@pytest.fixture(scope="module")
def shared_broker() -> Iterator[Running]:
    with running() as broker:
        yield broker


@pytest.fixture
def own_broker() -> Iterator[Running]:
    """One that the test may stop, cut or set policies on."""
    with running() as broker:
        yield broker


@pytest.fixture
def pulsar_client(shared_broker: Running) -> Iterator[pulsar.Client]:
    with client(shared_broker) as made:
        yield made


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic that no other test has."""
    return f"persistent://public/default/{request.node.name.replace('[', '-').replace(']', '')}"
