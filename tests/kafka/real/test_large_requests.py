"""Large Produce requests on a real broker: their records pass unread, and are stored as they were sent."""

from tests.kafka.real.conftest import NewTopic
from tests.kafka.real.support.broker import KafkaBroker
from tests.kafka.real.support.clients import read_topic
from tests.kafka.real.support.families import RdkafkaFamily
from tests.kafka.real.support.gate import Gate
from tests.kafka.real.support.history import judge
from tests.kafka.real.support.raw import RawClient
from tests.kafka.session.messages import PRODUCE, batch, produce

LARGE = {"batch.size": 950_000, "linger.ms": 200, "queue.buffering.max.kbytes": 100_000}


def test_batches_of_a_mebibyte_are_stored_exactly_and_refused_ones_not_at_all(
    kafka: KafkaBroker, gate: Gate, new_topic: NewTopic
) -> None:
    topic = new_topic()
    gate.apply({"topics": [{"name": topic, "max_publish_rate_bytes": "1GiB/s"}]})
    log = RdkafkaFamily().publish(gate.bootstrap, topic, [10_000] * 900, settings=LARGE)
    assert log.errored == {}
    stored = read_topic(kafka.bootstrap, topic)
    judge(log, stored).assert_clean()
    gate.apply({"topics": [{"name": topic, "max_message_size": 5_000}]})
    refused = RdkafkaFamily().publish(gate.bootstrap, topic, [10_000] * 200, settings=LARGE)
    assert len(refused.errored) == 200
    assert len(read_topic(kafka.bootstrap, topic)) == len(stored)


def test_a_client_that_dies_in_the_middle_of_a_request_leaves_nothing_of_it(
    kafka: KafkaBroker, gate: Gate, new_topic: NewTopic
) -> None:
    topic = new_topic()
    large = batch(*(bytes([number]) * 100_000 for number in range(9)))
    with RawClient(gate.bootstrap) as client:
        for _ in range(2):
            client.send(produce({topic: large}, correlation_id=0, client_id="raw"))
            answer = client.answer(PRODUCE, 9)
            assert answer.responses[0].partition_responses[0].error_code == 0
        client.send(produce({topic: large}, correlation_id=0, client_id="raw")[:600_000])
    log = RdkafkaFamily().publish(gate.bootstrap, topic, [10], settings=LARGE)
    assert log.errored == {}
    stored = read_topic(kafka.bootstrap, topic)
    assert len(stored) == 9 + 9 + 1
