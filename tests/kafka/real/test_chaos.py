"""How a stock client takes faults that policies inject."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from tests.kafka.real.conftest import NewTopic
from tests.kafka.real.support.broker import KafkaBroker
from tests.kafka.real.support.clients import read_topic
from tests.kafka.real.support.families import AiokafkaFamily, Mode
from tests.kafka.real.support.gate import Gate
from tests.kafka.real.support.history import judge

COUNT = 60
ONE_IN_A_BATCH = {"batch.size": 100}


@pytest.fixture(scope="module")
def chaos_gate(kafka: KafkaBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gate]:
    """A gateway that may inject faults."""
    directory, settings = tmp_path_factory.mktemp("chaos") / "run", {"plugins": ["sluicegate.chaos"]}
    with Gate(directory, kafka.bootstrap, settings=settings) as running:
        yield running


@pytest.mark.parametrize("fault", ["chaos_kill", pytest.param("chaos_corrupt", marks=pytest.mark.longer)])
def test_an_idempotent_producer_goes_on_and_nothing_is_lost_or_stored_twice(
    kafka: KafkaBroker, chaos_gate: Gate, new_topic: NewTopic, aiokafka_family: AiokafkaFamily, fault: str
) -> None:
    topic = new_topic()
    until = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    policies = {fault: "20%", "chaos_seed": 1, "chaos_until": until}
    chaos_gate.apply({"topics": [{"name": topic, **policies}]})
    log = aiokafka_family.publish(
        chaos_gate.bootstrap, topic, [60] * COUNT, mode=Mode.IDEMPOTENT, settings=ONE_IN_A_BATCH
    )
    assert log.errored == {}
    judge(log, read_topic(kafka.bootstrap, topic)).assert_clean()
    hits = chaos_gate.decided(topic=topic, action="reject")
    assert {row["policy"] for row in hits} == {fault}

    def are_counted() -> bool:
        return chaos_gate.metric("policy_violation_total", policy_type=fault) >= len(hits)

    chaos_gate.eventually(are_counted, "a metric counts what was injected")
