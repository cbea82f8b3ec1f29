"""Runs on a real Kafka and a real Pulsar; without Java or the jars they skip and say why."""

from pathlib import Path

import pytest
from tests.real.needs import mark, need

from sluicegate_reports.runner.brokers import jars
from sluicegate_reports.runner.brokers.processes import UnavailableError

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what stands in this folder."""
    mark(items, _HERE)


@pytest.fixture(scope="package")
def brokers() -> None:
    """Skip where no broker can be run; with SLUICEGATE_REQUIRE_BROKER=1 that is a failure."""
    try:
        jars.classpath(jars.KAFKA)
        jars.classpath(jars.PULSAR)
    except UnavailableError as error:
        need(str(error))
