"""How a stock client takes faults that policies inject."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from tests.pulsar.real.support.admin import Admin
from tests.pulsar.real.support.broker import PulsarBroker
from tests.pulsar.real.support.family import numbered
from tests.pulsar.real.support.gate import Gate
from tests.pulsar.real.support.history import judge
from tests.pulsar.real.support.python import PythonFamily, read_topic

COUNT = 60


@pytest.fixture(scope="module")
def chaos_gate(pulsar: PulsarBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gate]:
    """A gateway that may inject faults."""
    directory, settings = tmp_path_factory.mktemp("chaos") / "run", {"plugins": ["sluicegate.chaos"]}
    with Gate(directory, pulsar.address, settings=settings, admin_url=pulsar.admin_url) as running:
        yield running


@pytest.mark.parametrize(
    ("fault", "seed"),
    [("chaos_kill", 488), pytest.param("chaos_corrupt", 146, marks=pytest.mark.longer)],
)
def test_a_producer_reconnects_and_nothing_is_lost(
    pulsar: PulsarBroker, chaos_gate: Gate, admin: Admin, python: PythonFamily, fault: str, seed: int
) -> None:
    """Without deduplication it may be stored twice, as after any broken connection.

    These seeds hit two of the first 51 messages on topics of these names, and then none for a while: the
    client sends all that is under way again after each break.
    """
    topic = f"persistent://public/default/{fault}"
    admin.create_topic(topic)
    until = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    policies = {fault: "2%", "chaos_seed": seed, "chaos_until": until}
    chaos_gate.apply({"topics": [{"name": topic, **policies}]})
    told = python.produce(chaos_gate.service_url, topic, numbered(COUNT)).close()
    assert all(one.entry for one in told)
    verdict = judge(told, read_topic(pulsar.service_url, topic))
    assert (verdict.lost, verdict.foreign) == ([], [])
    hits = chaos_gate.decided(at_least=2, topic=topic, action="reject")
    assert [row["policy"] for row in hits] == [fault, fault]
