"""Each policy with each stock client library, in one process and in several, on a real Kafka."""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.kafka.real.support.broker import KafkaBroker
from tests.matrix.cells import Cell, parameters
from tests.matrix.fixture import Played, played
from tests.matrix.java import kafka_program
from tests.matrix.playing import Family, System
from tests.matrix.policies import CLIENTS
from tests.matrix.programs import python_program
from tests.real.java import why_no_compiler
from tests.real.ports import free_run
from tests.waiting import LONG_S, until

PYTHON = {"aiokafka": "aio", "confluent-kafka": "rdkafka", "kafka-python": "kafka_python"}
FAMILIES = (*PYTHON, "java")


@pytest.fixture(scope="module")
def matrix(
    request: pytest.FixtureRequest, kafka: KafkaBroker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Played]:
    """The cells of this file."""
    directory = tmp_path_factory.mktemp("matrix")
    yield from played(request, system(kafka, directory), directory)


@asynccontextmanager
async def system(kafka: KafkaBroker, directory: Path) -> AsyncIterator[System]:
    """The session's broker."""
    python = {name: Family(python_program(module), CLIENTS) for name, module in PYTHON.items()}
    java = Family(partial(kafka_program, directory), several=2, missing=why_no_compiler())
    families = {**python, "java": java}
    entry = partial(entry_of, kafka)
    yield System("kafka", entry, str, families, partial(make_topics, kafka.bootstrap))


def entry_of(kafka: KafkaBroker) -> Mapping[str, Any]:
    """One more gate in front of the broker."""
    port = free_run(3)
    listen = {"host": "127.0.0.1", "port": port}
    return {"bootstrap": [kafka.bootstrap], "listen": listen, "node_port_base": port + 1}


def make_topics(bootstrap: str, partitions: Mapping[str, int]) -> None:
    """Make topics, by name with their partitions, and wait until all are led."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    wanted = [NewTopic(name, count, 1) for name, count in partitions.items()]
    for made in admin.create_topics(wanted).values():
        made.result(LONG_S)

    def are_led() -> bool:
        found = admin.list_topics(timeout=LONG_S).topics
        return all(
            name in found
            and len(found[name].partitions) == count
            and all(each.leader >= 0 for each in found[name].partitions.values())
            for name, count in partitions.items()
        )

    until(are_led, "all topics are led")


@pytest.mark.seed("S1-041", "S1-043", "S1-068", "S1-123", "S1-124")
@pytest.mark.parametrize("cell", parameters("kafka", FAMILIES))
def test_a_policy_applies_to_stock_clients(matrix: Played, cell: Cell) -> None:
    matrix.assert_right(cell)
