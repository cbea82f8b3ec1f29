"""The conformance table at Kafka's doors, on a real Kafka."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from confluent_kafka.admin import AdminClient
from tests.conformance.kafka_driver import driver
from tests.kafka.real.support.broker import KafkaBroker
from tests.kafka.real.support.clients import make_group
from tests.kafka.real.test_matrix import make_topics
from tests.waiting import LONG_S, until

from sluicegate.testing.conformance import Setup
from sluicegate.testing.conformance.suite import ConformanceSuite

_FIRST = ("proxy", "aiokafka")
"""One door of each kind."""
_OF_NO_DOOR = "no-door"
"""A topic, and a group of it."""
_bootstrap: list[str] = []


@asynccontextmanager
async def _real(setup: Setup) -> AsyncIterator[str]:
    (bootstrap,) = _bootstrap
    await asyncio.to_thread(make_topics, bootstrap, dict.fromkeys(setup.topics, 1))
    yield bootstrap


_DRIVER = driver(_real, is_mock=False)


@pytest.fixture(scope="module", autouse=True)
def broker(kafka: KafkaBroker) -> None:
    """The session's broker, which can list its groups: until then a limit of groups lets none in."""
    make_topics(kafka.bootstrap, {_OF_NO_DOOR: 1})
    make_group(kafka.bootstrap, _OF_NO_DOOR, _OF_NO_DOOR)  # the first group has its coordinators started
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    until(lambda: not admin.list_consumer_groups().result(LONG_S).errors, "the broker lists its groups")
    _bootstrap[:] = [kafka.bootstrap]


class TestOneDoorOfEachKind(ConformanceSuite):
    """The proxy and one library."""

    driver = replace(_DRIVER, doors={name: _DRIVER.doors[name] for name in _FIRST})


@pytest.mark.longer
class TestOtherDoors(ConformanceSuite):
    """The other libraries."""

    driver = replace(
        _DRIVER, doors={name: door for name, door in _DRIVER.doors.items() if name not in _FIRST}
    )
