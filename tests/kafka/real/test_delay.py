"""Fixed delay on a real broker: never early, complete, in order, and without effect on other topics."""

import json
import time

import pytest
from confluent_kafka import Producer
from tests.kafka.real.conftest import Join, NewTopic
from tests.kafka.real.support.broker import KafkaBroker
from tests.kafka.real.support.clients import read_topic, send_with_confluent
from tests.kafka.real.support.families import (
    AiokafkaFamily,
    Family,
    JavaFamily,
    Member,
    RdkafkaFamily,
    Received,
)
from tests.kafka.real.support.families.base import settled, wall_ms
from tests.kafka.real.support.families.rdkafka import RdkafkaMember
from tests.kafka.real.support.gate import Gate
from tests.kafka.real.support.history import judge
from tests.waiting import LONG_S, until

DELAY_MS = 3_000
FOREVER = {"message_timestamp_after_max_ms": str(2**63 - 1)}
"""The broker itself refuses time stamps more than an hour ahead unless it is told otherwise."""
HOUR_MS = 3_600_000
INVALID = {
    "java": "InvalidTimestampException",
    "librdkafka": "INVALID_TIMESTAMP",
    "aiokafka": "InvalidTimestampError",
}


def send_paced(bootstrap: str, codecs: dict[str, str], records: int) -> list[bytes]:
    """Send numbered records to each topic with its codec, ten every 20 ms; returns their values."""
    own = {"bootstrap.servers": bootstrap, "linger.ms": 0, "enable.idempotence": True}
    producers = {topic: Producer({**own, "compression.type": codec}) for topic, codec in codecs.items()}
    values = [f"value:{number}".encode() + b" " * 100 for number in range(records)]
    for first in range(0, records, 10):
        for topic, producer in producers.items():
            for value in values[first : first + 10]:
                producer.produce(topic, value, b"key")
            producer.poll(0)
        time.sleep(0.02)
    assert [producer.flush(LONG_S) for producer in producers.values()] == [0] * len(producers)
    return values


def waits(received: list[Received]) -> list[int]:
    """Milliseconds from each record's time stamp to its arrival."""
    return [record.at_ms - record.timestamp_ms for record in received]


@pytest.mark.seed("S2-003", "S2-006", "S2-026")
def test_every_record_is_delivered_once_in_order_and_never_early(
    gate: Gate, new_topic: NewTopic, join: Join, java_family: JavaFamily, aiokafka_family: AiokafkaFamily
) -> None:
    late, prompt, uncompressed, held = (new_topic(name) for name in ("late", "prompt", "late", "held"))
    delays: dict[str, int | str] = {late: DELAY_MS, uncompressed: DELAY_MS, held: "1h"}
    topics = [{"name": name, "fixed_delivery_delay": delay} for name, delay in delays.items()]
    gate.apply({"topics": topics})
    members: dict[str, Member] = {
        f"{family.name} {protocol}": join(
            family,
            gate.bootstrap,
            [late, prompt, held],
            f"{late}-{family.name}-{protocol}",
            client_id=f"{family.name}-{protocol}",
            group_protocol=protocol,
        )
        for family in (RdkafkaFamily(), java_family)
        for protocol in ("classic", "consumer")
    }
    # aiokafka reads lz4 only with a further package.
    members["aiokafka classic"] = join(aiokafka_family, gate.bootstrap, [uncompressed, prompt, held], late)
    assert {name: settled(member) for name, member in members.items()} == dict.fromkeys(members, "")
    codecs = {late: "lz4"} | dict.fromkeys((uncompressed, prompt, held), "none")
    values = send_paced(gate.bootstrap, codecs, 600)
    until(lambda: all(len(member.received) >= 1_200 for member in members.values()), "all records")
    time.sleep(0.5)
    # How late they are is the machine's affair; none waits for those that are due in an hour.
    for name, member in members.items():
        others = [record for record in member.received if record.topic == prompt]
        delayed = [record for record in member.received if record.topic in (late, uncompressed)]
        assert [record.value for record in delayed] == values, name
        assert [record.value for record in others] == values, name
        assert len(member.received) == len(delayed) + len(others), name
        assert min(waits(delayed)) >= DELAY_MS, name


def test_waiting_for_undue_records_is_no_busy_loop(gate: Gate, new_topic: NewTopic) -> None:
    topic = new_topic()
    gate.apply({"topics": [{"name": topic, "fixed_delivery_delay": DELAY_MS}]})
    fetches: list[int] = []

    def count(text: str) -> None:
        brokers = json.loads(text)["brokers"].values()
        fetches.append(sum(broker["req"].get("Fetch", 0) for broker in brokers))

    member = RdkafkaMember(
        [topic],
        {
            "bootstrap.servers": gate.bootstrap,
            "group.id": f"{topic}-group",
            "auto.offset.reset": "earliest",
            "statistics.interval.ms": 100,
            "stats_cb": count,
        },
    )
    try:
        assert settled(member) == ""
        send_with_confluent(gate.bootstrap, topic, 200, settings={"batch.num.messages": 200})
        until(lambda: bool(fetches), "statistics of the client")
        before, began = fetches[-1], time.monotonic()
        until(lambda: len(member.received) == 200, "all records")
        time.sleep(0.2)
        # Two polls a second, and a few more where records become due; a busy loop makes hundreds a second.
        assert fetches[-1] - before < 20 + 4 * (time.monotonic() - began)
    finally:
        member.close()


@pytest.mark.longer(but="librdkafka")
def test_a_partition_with_due_records_does_not_wait_for_another(
    kafka: KafkaBroker, gate: Gate, new_topic: NewTopic, family: Family, join: Join
) -> None:
    topic = new_topic(partitions=2)
    gate.apply({"topics": [{"name": topic, "fixed_delivery_delay": "1h"}]})
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for number in range(50):
        producer.produce(topic, f"new:{number}", partition=0)
        producer.produce(topic, f"old:{number}", partition=1, timestamp=wall_ms() - 2 * HOUR_MS)
    assert producer.flush(LONG_S) == 0
    member = join(family, gate.bootstrap, topic, f"{topic}-group")
    until(lambda: len(member.received) >= 50, "the records that are due")
    assert {record.partition for record in member.received} == {1}


@pytest.mark.seed("S2-025")
def test_a_time_stamp_far_ahead_is_refused(
    kafka: KafkaBroker, gate: Gate, new_topic: NewTopic, family: Family
) -> None:
    topic = new_topic(**FOREVER)
    gate.apply({"topics": [{"name": topic, "fixed_delivery_delay": "1s"}]})
    refused = family.publish(gate.bootstrap, topic, [0], lane="ahead", timestamp_ms=wall_ms() + 2 * HOUR_MS)
    (reason,) = refused.errored.values()
    assert reason.startswith(INVALID[family.name])
    allowed = family.publish(gate.bootstrap, topic, [0], lane="soon", timestamp_ms=wall_ms() + HOUR_MS // 2)
    assert len(allowed.acked) == 1
    judge(refused.merged(allowed), read_topic(kafka.bootstrap, topic)).assert_clean()


@pytest.mark.longer(but="librdkafka")
@pytest.mark.seed("S2-025")
def test_a_stored_record_from_the_far_future_is_due_after_first_sight(
    kafka: KafkaBroker, gate: Gate, new_topic: NewTopic, family: Family, join: Join
) -> None:
    topic = new_topic(**FOREVER)
    ahead_ms = wall_ms() + 20 * HOUR_MS
    RdkafkaFamily().publish(kafka.bootstrap, topic, [0] * 20, timestamp_ms=ahead_ms)
    gate.apply({"topics": [{"name": topic, "fixed_delivery_delay": "2s"}]})
    begin_ms = wall_ms()
    member = join(family, gate.bootstrap, topic, f"{topic}-group")
    until(lambda: len(member.received) == 20, "records from the future")
    assert {record.timestamp_ms for record in member.received} == {ahead_ms}
    assert min(record.at_ms for record in member.received) - begin_ms >= 2_000


def paced_batches(topic: str, gate: Gate, batches: int, over_s: float, timestamp_ms: int) -> list[int]:
    """Send batches of three records evenly over a time; when each batch was given to the client, in ms."""
    own = {"bootstrap.servers": gate.bootstrap, "linger.ms": 0}
    producer = Producer({**own, "batch.num.messages": 3})
    sent_ms = []
    for number in range(batches):
        sent_ms.append(wall_ms())
        for record in range(3):
            producer.produce(topic, f"{number}:{record}", timestamp=timestamp_ms)
        assert producer.flush(LONG_S) == 0
        time.sleep(over_s / batches)
    return sent_ms


@pytest.mark.longer(but="librdkafka")
@pytest.mark.parametrize("clock", ["receive_time", "publish_time"])
def test_back_dated_batches_wait_for_their_delay_after_they_arrived(
    gate: Gate, new_topic: NewTopic, family: Family, join: Join, clock: str
) -> None:
    topic = new_topic()
    gate.apply({"topics": [{"name": topic, "fixed_delivery_delay": DELAY_MS, "delay_clock": clock}]})
    member = join(family, gate.bootstrap, topic, f"{topic}-group")
    assert settled(member) == ""
    sent_ms = paced_batches(topic, gate, 20, 5, wall_ms() - HOUR_MS)
    until(lambda: len(member.received) >= 60, "all records")
    numbers = [int(record.value.partition(b":")[0]) for record in member.received]
    assert numbers == [number for number in range(20) for _ in range(3)]
    late_ms = [
        record.at_ms - sent_ms[number] for number, record in zip(numbers, member.received, strict=True)
    ]
    assert min(late_ms) >= DELAY_MS


@pytest.mark.longer(but="librdkafka")
def test_time_stamps_cannot_bypass_the_delay(
    gate: Gate, new_topic: NewTopic, family: Family, join: Join
) -> None:
    topic = new_topic()
    gate.apply({"topics": [{"name": topic, "fixed_delivery_delay": "5s"}]})
    begin_ms = wall_ms()
    log = family.publish(gate.bootstrap, topic, [0] * 20, timestamp_ms=begin_ms - HOUR_MS)
    assert len(log.acked) == 20
    member = join(family, gate.bootstrap, topic, f"{topic}-group")
    until(lambda: len(member.received) == 20, "the records")
    assert min(record.at_ms for record in member.received) - begin_ms >= 5_000
