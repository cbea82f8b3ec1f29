"""The fixture and the history checker, on a real broker with nothing in between."""

import pytest
from tests.kafka.real.conftest import NewTopic
from tests.kafka.real.support.broker import KafkaBroker, Security
from tests.kafka.real.support.clients import (
    create_topic,
    read_topic,
    send_with_aiokafka,
    send_with_confluent,
)
from tests.kafka.real.support.history import judge
from tests.kafka.real.support.java import as_lane, consume_with_java, produce_with_java


async def test_aiokafka_history_is_clean(kafka: KafkaBroker, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=3)
    log = await send_with_aiokafka(kafka.bootstrap, topic, 300, pad_bytes=100)
    assert len(log.acked) == 300
    judge(log, read_topic(kafka.bootstrap, topic)).assert_clean()


@pytest.mark.parametrize("idempotent", [False, True])
def test_librdkafka_history_is_clean(kafka: KafkaBroker, new_topic: NewTopic, idempotent: bool) -> None:
    topic = new_topic()
    log = send_with_confluent(kafka.bootstrap, topic, 1000, settings={"enable.idempotence": idempotent})
    assert len(log.acked) == 1000
    judge(log, read_topic(kafka.bootstrap, topic)).assert_clean()


def test_java_tools_history_is_clean(kafka: KafkaBroker, new_topic: NewTopic) -> None:
    topic = new_topic()
    produced = produce_with_java(kafka.bootstrap, topic, 2000)
    assert produced.sent == 2000
    judge(produced.log(), as_lane(read_topic(kafka.bootstrap, topic))).assert_clean()
    assert consume_with_java(kafka.bootstrap, topic, 2000) == 2000


def test_java_producer_reports_refusals(kafka: KafkaBroker, new_topic: NewTopic) -> None:
    topic = new_topic(max_message_bytes="200")
    produced = produce_with_java(
        kafka.bootstrap, topic, 5, record_bytes=1000, properties={"enable.idempotence": "false"}
    )
    assert produced.errors == ["org.apache.kafka.common.errors.RecordTooLargeException"] * 5


def test_librdkafka_refusals_are_errors_and_not_stored(kafka: KafkaBroker, new_topic: NewTopic) -> None:
    topic = new_topic(max_message_bytes="200")
    log = send_with_confluent(kafka.bootstrap, topic, 3, pad_bytes=1000, settings={"linger.ms": 0})
    assert len(log.errored) == 3
    judge(log, read_topic(kafka.bootstrap, topic)).assert_clean()


@pytest.mark.parametrize("fault", ["lost", "duplicated", "reordered", "errored_but_stored", "foreign"])
def test_a_planted_fault_is_found(kafka: KafkaBroker, new_topic: NewTopic, fault: str) -> None:
    topic = new_topic()
    log = send_with_confluent(kafka.bootstrap, topic, 50)
    if fault == "lost":
        log.ack(log.send("librdkafka", 50))
    elif fault == "errored_but_stored":
        log.error(log.sent[7], "made up")
    else:
        again = send_with_confluent(
            kafka.bootstrap, topic, 1, lane="other" if fault == "foreign" else "librdkafka"
        )
        if fault == "reordered":
            # Number 0 is stored a second time; without its first copy it lies behind all the others.
            assert again.sent == [log.sent[0]]
    stored = read_topic(kafka.bootstrap, topic)
    log.acked = dict.fromkeys(log.acked)
    found = judge(log, stored[1:] if fault == "reordered" else stored)
    assert found.counts == {fault: 1}
    with pytest.raises(AssertionError, match=fault):
        found.assert_clean()


def test_tls_and_sasl_listeners(kafka: KafkaBroker, new_topic: NewTopic, security: Security) -> None:
    topic = new_topic()
    ways = {
        kafka.ports.tls: security.client_tls(),
        kafka.ports.sasl: security.client_sasl("alice"),
        kafka.ports.sasl_tls: security.client_sasl("bob", tls=True),
    }
    for port, settings in ways.items():
        log = send_with_confluent(f"127.0.0.1:{port}", topic, 10, lane=str(port), settings=settings)
        assert len(log.acked) == 10
    assert len(read_topic(kafka.bootstrap, topic)) == 30


@pytest.mark.longer
def test_confirmed_records_survive_a_killed_broker(own_kafka: KafkaBroker) -> None:
    create_topic(own_kafka.bootstrap, "durable")
    log = send_with_confluent(own_kafka.bootstrap, "durable", 200, settings={"acks": "all"})
    pid = own_kafka.pid
    own_kafka.kill()
    own_kafka.start()
    assert own_kafka.pid != pid
    judge(log, read_topic(own_kafka.bootstrap, "durable")).assert_clean()
    own_kafka.stop()
    own_kafka.start()
    judge(log, read_topic(own_kafka.bootstrap, "durable")).assert_clean()
