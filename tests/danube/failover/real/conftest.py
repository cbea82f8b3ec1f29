"""A Danube cluster on a real etcd for the tests below this folder; without etcd they skip and say why."""

import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from benchmarks.harness.etcd import why_no_etcd
from tests.danube.failover.real.support.world import World
from tests.real.needs import mark, need
from tests.waiting import LONG_S

from sluicegate.store.metadata import MetadataStore, open_metadata

_HERE = Path(__file__).parent
_worlds: list[World] = []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what stands in this folder."""
    mark(items, _HERE)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """Show logs and keys when a test has failed, and keep them."""
    report = yield
    if report.failed and _HERE in item.path.parents:
        for world in _worlds:
            report.sections += world.sections()
            world.keep(re.sub(r"\W+", "-", item.name))
    return report


@pytest.fixture(scope="package")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Those of all tests."""
    need(why_no_etcd())
    with World.running(tmp_path_factory.mktemp("failover")) as world:
        _worlds.append(world)
        yield world
        _worlds.clear()


@pytest.fixture
def world(processes: World) -> World:
    """The same for one test: no broker runs before it."""
    processes.reset()
    return processes


@pytest.fixture
async def store(world: World) -> AsyncIterator[MetadataStore]:
    """What the brokers share."""
    opened = open_metadata(f"{world.etcd.url}?timeout={LONG_S}s")
    assert opened is not None
    yield opened[0]
    await opened[0].close()
