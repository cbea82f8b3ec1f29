"""Each policy on each client library as it comes, in one process and in several, on a real Pulsar."""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.matrix.cells import Cell, parameters
from tests.matrix.fixture import Played, played
from tests.matrix.java import pulsar_program
from tests.matrix.playing import Family, System
from tests.matrix.policies import CLIENTS
from tests.matrix.programs import python_program
from tests.pulsar.real.support.broker import PulsarBroker
from tests.real.java import why_no_compiler
from tests.real.ports import free_run

FAMILIES = ("pulsar-client", "java", "go")
GO = Path(__file__).parents[3] / "deploy" / "pulsar-go" / "target" / "pulsar-go"


@pytest.fixture(scope="module")
def matrix(
    request: pytest.FixtureRequest, pulsar: PulsarBroker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Played]:
    """The cells of this file."""
    directory = tmp_path_factory.mktemp("matrix")
    yield from played(request, system(pulsar, directory), directory)


@asynccontextmanager
async def system(pulsar: PulsarBroker, directory: Path) -> AsyncIterator[System]:
    """The session's broker."""

    def entry() -> Mapping[str, Any]:
        port = free_run(3)
        return {
            "bootstrap": [pulsar.address],
            "listen": {"host": "127.0.0.1", "port": port},
            "node_port_base": port + 1,
            "admin": {"url": pulsar.admin_url},
        }

    families = {
        "pulsar-client": Family(python_program("cpulsar"), CLIENTS),
        "java": Family(partial(pulsar_program, directory), several=2, missing=why_no_compiler()),
        "go": Family(lambda: (str(GO),), CLIENTS, why_no_go()),
    }
    yield System("pulsar", entry, topic, families)


def why_no_go() -> str | None:
    """What is missing for the Go client, in words; None if nothing."""
    return None if GO.exists() else f"{GO} is missing: `make pulsar-go` builds it with Go 1.19 or later"


def topic(name: str) -> str:
    """A topic of the default namespace."""
    return f"persistent://public/default/{name}"


@pytest.mark.seed("S1-041", "S1-043", "S1-068", "S1-123", "S1-124")
@pytest.mark.parametrize("cell", parameters("pulsar", FAMILIES))
def test_a_policy_applies_to_stock_clients(matrix: Played, cell: Cell) -> None:
    matrix.assert_right(cell)
