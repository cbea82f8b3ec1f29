"""Adaptive publish throttling on a real Kafka: a lagging group throttles, and releases as it catches up."""

from pathlib import Path

import pytest
from confluent_kafka import Consumer
from tests.kafka.real.conftest import NewTopic
from tests.kafka.real.support.broker import KafkaBroker
from tests.kafka.real.support.clients import read_topic
from tests.kafka.real.support.families import RdkafkaFamily
from tests.kafka.real.support.gate import Gate
from tests.kafka.real.support.history import judge
from tests.kafka.real.support.steady import SteadyProducer
from tests.waiting import LONG_S

RECORD = 1_000
POLICIES = {
    "adaptive_publish_throttling_enabled": True,
    "adaptive_publish_throttling_interval_ms": "100ms",
    "adaptive_publish_throttling_per_topic_metrics_enabled": True,
    # Only the backlog is to press: memory can never be so full.
    "adaptive_publish_throttling_memory_high_watermark_pct": 0.999,
    "adaptive_publish_throttling_memory_low_watermark_pct": 0.99,
}
PRESSURE = {"backlog": {"interval": "200ms", "quota": "200KiB"}}


@pytest.mark.seed("S5-022", "S5-031", "S5-065")
def test_a_group_that_lags_slows_its_topic_down_until_it_has_caught_up(
    kafka: KafkaBroker, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic()
    with (
        Gate(tmp_path / "gate", kafka.bootstrap, POLICIES, {"pressure": PRESSURE}) as gate,
        SteadyProducer(gate.bootstrap, topic, "steady", interval_s=0.005) as steady,
    ):
        steady.goes_on(200)  # so that there is a natural rate to fall from
        reader = {"bootstrap.servers": kafka.bootstrap, "group.id": f"of-{topic}"}
        consumer = Consumer(reader | {"auto.offset.reset": "earliest", "enable.auto.commit": False})
        try:
            consumer.subscribe([topic])
            first = consumer.poll(LONG_S)
            assert first is not None
            consumer.commit(message=first, asynchronous=False)
            RdkafkaFamily().publish(kafka.bootstrap, topic, [RECORD] * 400, lane="direct")
            gate.eventually(lambda: active(gate) == 1, "the limiter is active")
            assert gate.decided(policy="adaptive_publish_throttling", topic=topic)
            while active(gate):
                for message in consumer.consume(500, 0.5)[-1:]:
                    consumer.commit(message=message)
        finally:
            consumer.close()
    assert steady.log.errored == {}
    stored = [each for each in read_topic(kafka.bootstrap, topic) if not each.value.startswith(b"direct")]
    judge(steady.log, stored).assert_clean()


def active(gate: Gate) -> float:
    return gate.metric("pulsar_broker_adaptive_throttle_active_topic_count")
