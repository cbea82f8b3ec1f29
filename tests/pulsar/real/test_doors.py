"""The conformance table at Pulsar's doors, on a real Pulsar."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from tests.conformance.pulsar_driver import driver
from tests.pulsar.real.support.broker import PulsarBroker

from sluicegate.testing.conformance import Setup
from sluicegate.testing.conformance.suite import ConformanceSuite

_FIRST = ("proxy", "pulsar-client")
"""One door of each kind."""
_entry: dict[str, Any] = {}


@asynccontextmanager
async def _real(setup: Setup) -> AsyncIterator[Mapping[str, Any]]:
    yield _entry


_DRIVER = driver(_real)


@pytest.fixture(scope="module", autouse=True)
def broker(pulsar: PulsarBroker) -> None:
    """The session's broker."""
    _entry.update(bootstrap=[pulsar.address], admin={"url": pulsar.admin_url})


class TestOneDoorOfEachKind(ConformanceSuite):
    """The proxy and the classes that block."""

    driver = replace(_DRIVER, doors={name: _DRIVER.doors[name] for name in _FIRST})


@pytest.mark.longer
class TestOtherDoors(ConformanceSuite):
    """The classes of asyncio."""

    driver = replace(
        _DRIVER, doors={name: door for name, door in _DRIVER.doors.items() if name not in _FIRST}
    )
