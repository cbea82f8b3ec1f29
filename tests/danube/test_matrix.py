"""Each policy on danube-client as it comes, in one process and in several, on the reference broker."""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.matrix.cells import Cell, parameters
from tests.matrix.fixture import Played, played
from tests.matrix.playing import Family, System
from tests.matrix.policies import CLIENTS
from tests.matrix.programs import python_program

from sluicegate.demo.ports import free_ports
from sluicegate_danube.reference import ReferenceBroker

FAMILIES = {"danube-client": Family(python_program("danube"), CLIENTS)}


@pytest.fixture(scope="module")
def matrix(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    """The cells of this file."""
    yield from played(request, system(), tmp_path_factory.mktemp("matrix"))


@asynccontextmanager
async def system() -> AsyncIterator[System]:
    """The reference broker."""
    async with ReferenceBroker() as broker:

        def entry() -> Mapping[str, Any]:
            return {
                "bootstrap": broker.addresses,
                "listen": {"host": "127.0.0.1", "port": free_ports(1)},
                "admin": {"url": broker.urls[0]},
                "ghost_release": "30s",  # six health checks: a slow client misses some
            }

        yield System("danube", entry, topic, FAMILIES)


def topic(name: str) -> str:
    """A topic of the default namespace."""
    return f"/default/{name}"


@pytest.mark.slow
@pytest.mark.seed("S1-041", "S1-043", "S1-068", "S1-123", "S1-124")
@pytest.mark.parametrize("cell", parameters("danube", tuple(FAMILIES)))
def test_a_policy_applies_to_stock_clients(matrix: Played, cell: Cell) -> None:
    matrix.assert_right(cell)
