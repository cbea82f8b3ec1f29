"""Pulsar's own client finds what it needs: each subscription type, delays, readers, seeks."""

import re
import time
from datetime import timedelta

import pulsar
import pytest
from tests.pulsar.reference.running import NOTHING_MS, TIMEOUT_MS, Running, client, running

from sluicegate_pulsar.reference import Settings
from sluicegate_pulsar.reference.topic_names import parse_name

TYPES = [
    pulsar.ConsumerType.Exclusive,
    pulsar.ConsumerType.Shared,
    pulsar.ConsumerType.Failover,
    pulsar.ConsumerType.KeyShared,
]
EARLIEST = pulsar.InitialPosition.Earliest


def receive(consumer: pulsar.Consumer, count: int) -> list[bytes]:
    """Contents of the next messages, acknowledged."""
    found = []
    for _ in range(count):
        message = consumer.receive(TIMEOUT_MS)
        consumer.acknowledge(message)
        found.append(message.data())
    return found


def expect_nothing(consumer: pulsar.Consumer) -> None:
    with pytest.raises(pulsar.Timeout):
        consumer.receive(NOTHING_MS)


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
@pytest.mark.parametrize("batched", [False, True], ids=["single", "batched"])
def test_produce_and_consume(
    pulsar_client: pulsar.Client, topic: str, kind: pulsar.ConsumerType, batched: bool
) -> None:
    consumer = pulsar_client.subscribe(topic, "sub", consumer_type=kind)
    # Key_Shared needs batches of one key each.
    producer = pulsar_client.create_producer(
        topic,
        batching_enabled=batched,
        batching_type=pulsar.BatchingType.KeyBased,
        batching_max_publish_delay_ms=5,
    )
    wanted = [b"%d" % number for number in range(50)]
    for content in wanted:
        producer.send_async(content, None, partition_key="k", properties={"n": content.decode()})
    producer.flush()
    assert receive(consumer, 50) == wanted
    expect_nothing(consumer)


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
def test_unacknowledged_messages_go_to_the_next_consumer(
    pulsar_client: pulsar.Client, topic: str, kind: pulsar.ConsumerType
) -> None:
    consumer = pulsar_client.subscribe(topic, "sub", consumer_type=kind)
    producer = pulsar_client.create_producer(topic, batching_enabled=False)
    for number in range(4):
        producer.send(b"%d" % number)
    messages = [consumer.receive(TIMEOUT_MS) for _ in range(4)]
    consumer.acknowledge(messages[0])
    consumer.acknowledge(messages[2])
    consumer.close()
    again = pulsar_client.subscribe(topic, "sub", consumer_type=kind)
    assert receive(again, 2) == [b"1", b"3"]
    expect_nothing(again)


@pytest.mark.parametrize("kind", [pulsar.ConsumerType.Shared, pulsar.ConsumerType.KeyShared])
def test_delays_are_honoured_on_shared_subscriptions(
    pulsar_client: pulsar.Client, topic: str, kind: pulsar.ConsumerType
) -> None:
    consumer = pulsar_client.subscribe(topic, "sub", consumer_type=kind)
    producer = pulsar_client.create_producer(topic)
    due_ms = time.time_ns() // 1_000_000 + 1_500
    producer.send_async(b"late", lambda *_: None, deliver_at=due_ms)
    producer.send(b"now")
    is_due = time.time_ns() // 1_000_000 >= due_ms  # if this process stood still
    received = receive(consumer, 2)
    assert received == [b"now", b"late"] or is_due
    assert sorted(received) == [b"late", b"now"]
    assert time.time_ns() // 1_000_000 >= due_ms


@pytest.mark.parametrize("kind", [pulsar.ConsumerType.Exclusive, pulsar.ConsumerType.Failover])
def test_delays_are_ignored_on_exclusive_subscriptions(
    pulsar_client: pulsar.Client, topic: str, kind: pulsar.ConsumerType
) -> None:
    consumer = pulsar_client.subscribe(topic, "sub", consumer_type=kind)
    producer = pulsar_client.create_producer(topic)
    producer.send(b"late", deliver_after=timedelta(minutes=5))
    assert receive(consumer, 1) == [b"late"]


def test_negative_acknowledgement_redelivers(pulsar_client: pulsar.Client, topic: str) -> None:
    consumer = pulsar_client.subscribe(
        topic,
        "sub",
        consumer_type=pulsar.ConsumerType.Shared,
        negative_ack_redelivery_delay_ms=50,
    )
    pulsar_client.create_producer(topic).send(b"x")
    counts = []
    for _ in range(3):
        message = consumer.receive(TIMEOUT_MS)
        counts.append(message.redelivery_count())
        consumer.negative_acknowledge(message)
    assert counts == [0, 1, 2]
    assert receive(consumer, 1) == [b"x"]


def test_failed_messages_go_to_the_dead_letter_topic(pulsar_client: pulsar.Client, topic: str) -> None:
    dead = pulsar_client.subscribe(f"{topic}-dead", "sub")
    policy = pulsar.ConsumerDeadLetterPolicy(2, dead_letter_topic=f"{topic}-dead")
    consumer = pulsar_client.subscribe(
        topic,
        "sub",
        consumer_type=pulsar.ConsumerType.Shared,
        negative_ack_redelivery_delay_ms=50,
        dead_letter_policy=policy,
    )
    pulsar_client.create_producer(topic).send(b"poison")
    for _ in range(3):
        consumer.negative_acknowledge(consumer.receive(TIMEOUT_MS))
    assert receive(dead, 1) == [b"poison"]


def test_redeliver_unacknowledged_keeps_order(pulsar_client: pulsar.Client, topic: str) -> None:
    consumer = pulsar_client.subscribe(topic, "sub")
    producer = pulsar_client.create_producer(topic, batching_enabled=False)
    for number in range(3):
        producer.send(b"%d" % number)
    for _ in range(3):
        consumer.receive(TIMEOUT_MS)  # all of them: one still under way would overtake the others
    consumer.redeliver_unacknowledged_messages()
    assert receive(consumer, 3) == [b"0", b"1", b"2"]


def test_cumulative_acknowledgement_covers_all_earlier_messages(
    pulsar_client: pulsar.Client, shared_broker: Running, topic: str
) -> None:
    consumer = pulsar_client.subscribe(topic, "sub")
    producer = pulsar_client.create_producer(topic, batching_enabled=False)
    for number in range(5):
        producer.send(b"%d" % number)
    messages = [consumer.receive(TIMEOUT_MS) for _ in range(4)]
    consumer.acknowledge_cumulative(messages[3])
    consumer.close()
    (subscription,) = shared_broker.reference.broker.topics[topic].subscriptions.values()
    assert subscription.backlog == 1
    assert receive(pulsar_client.subscribe(topic, "sub"), 1) == [b"4"]


def test_reader(pulsar_client: pulsar.Client, shared_broker: Running, topic: str) -> None:
    producer = pulsar_client.create_producer(topic, batching_enabled=False)
    ids = [producer.send(b"%d" % number) for number in range(5)]
    for start, inclusive, wanted in (
        (pulsar.MessageId.earliest, False, [0, 1, 2, 3, 4]),
        (ids[2], False, [3, 4]),
        (ids[2], True, [2, 3, 4]),
        (pulsar.MessageId.latest, False, []),
    ):
        reader = pulsar_client.create_reader(topic, start, start_message_id_inclusive=inclusive)
        found = []
        while reader.has_message_available():
            found.append(int(reader.read_next(TIMEOUT_MS).data()))
        assert found == wanted
        reader.close()
    assert shared_broker.reference.broker.topics[topic].subscriptions == {}


def test_reader_starts_within_a_batch(pulsar_client: pulsar.Client, topic: str) -> None:
    producer = pulsar_client.create_producer(
        topic, batching_enabled=True, batching_max_publish_delay_ms=60_000
    )
    ids: list[pulsar.MessageId] = []
    for number in range(4):
        producer.send_async(b"%d" % number, lambda _, message_id: ids.append(message_id))
    producer.flush()
    assert {message_id.entry_id() for message_id in ids} == {0}
    reader = pulsar_client.create_reader(topic, ids[1])
    assert [reader.read_next(TIMEOUT_MS).data() for _ in range(2)] == [b"2", b"3"]
    assert not reader.has_message_available()


def test_seek(pulsar_client: pulsar.Client, topic: str) -> None:
    consumer = pulsar_client.subscribe(topic, "sub")
    producer = pulsar_client.create_producer(topic, batching_enabled=False)
    ids = [producer.send(b"%d" % number) for number in range(3)]
    between = time.time_ns() // 1_000_000 + 1
    while time.time_ns() // 1_000_000 <= between:
        time.sleep(0.001)  # publish times are whole ms of the wall clock
    producer.send(b"3")
    assert receive(consumer, 4) == [b"0", b"1", b"2", b"3"]
    consumer.seek(pulsar.MessageId.earliest)
    assert receive(consumer, 4) == [b"0", b"1", b"2", b"3"]
    consumer.seek(between)
    assert receive(consumer, 1) == [b"3"]
    consumer.seek(ids[1])
    assert receive(consumer, 1)[0] in (b"1", b"2")  # clients differ in whether the place itself counts
    consumer.seek(pulsar.MessageId.latest)
    expect_nothing(consumer)
    producer.send(b"4")
    assert receive(consumer, 1) == [b"4"]


def test_last_message_id(pulsar_client: pulsar.Client, topic: str) -> None:
    consumer = pulsar_client.subscribe(topic, "sub")
    last = consumer.get_last_message_id()
    assert (last.ledger_id(), last.entry_id()) == (-1, -1)
    sent = pulsar_client.create_producer(topic, batching_enabled=False).send(b"x")
    last = consumer.get_last_message_id()
    assert (last.ledger_id(), last.entry_id()) == (sent.ledger_id(), sent.entry_id())


def test_initial_position(pulsar_client: pulsar.Client, topic: str) -> None:
    producer = pulsar_client.create_producer(topic)
    producer.send(b"before")
    late = pulsar_client.subscribe(topic, "latest")
    early = pulsar_client.subscribe(topic, "earliest", initial_position=EARLIEST)
    producer.send(b"after")
    assert receive(late, 1) == [b"after"]
    assert receive(early, 2) == [b"before", b"after"]


def test_exclusive_is_exclusive(pulsar_client: pulsar.Client, topic: str) -> None:
    pulsar_client.subscribe(topic, "sub")
    with pytest.raises(pulsar.ConsumerBusy):
        pulsar_client.subscribe(topic, "sub")


def test_failover_takes_over(pulsar_client: pulsar.Client, topic: str) -> None:
    failover = pulsar.ConsumerType.Failover
    one = pulsar_client.subscribe(topic, "sub", consumer_type=failover)
    two = pulsar_client.subscribe(topic, "sub", consumer_type=failover)
    producer = pulsar_client.create_producer(topic, batching_enabled=False)
    for number in range(3):
        producer.send(b"%d" % number)
    assert receive(one, 1) == [b"0"]
    expect_nothing(two)
    one.close()
    assert receive(two, 2) == [b"1", b"2"]


def test_shared_divides(pulsar_client: pulsar.Client, topic: str) -> None:
    shared = pulsar.ConsumerType.Shared
    consumers = [pulsar_client.subscribe(topic, "sub", consumer_type=shared) for _ in range(2)]
    producer = pulsar_client.create_producer(topic, batching_enabled=False)
    for number in range(10):
        producer.send(b"%d" % number)
    found = [receive(consumer, 5) for consumer in consumers]
    assert sorted(found[0] + found[1]) == [b"%d" % number for number in range(10)]


def test_key_shared_divides_by_key(pulsar_client: pulsar.Client, topic: str) -> None:
    kind = pulsar.ConsumerType.KeyShared
    consumers = [pulsar_client.subscribe(topic, "sub", consumer_type=kind) for _ in range(2)]
    producer = pulsar_client.create_producer(topic, batching_enabled=False)
    for number in range(40):
        producer.send(b"%d" % number, partition_key=f"k{number % 8}")
    found: list[list[tuple[str, int]]] = []
    for consumer in consumers:
        mine: list[tuple[str, int]] = []
        found.append(mine)
        try:
            while True:
                message = consumer.receive(NOTHING_MS)
                mine.append((message.partition_key(), int(message.data())))
                consumer.acknowledge(message)
        except pulsar.Timeout:
            pass
    assert sorted(number for mine in found for _, number in mine) == list(range(40))
    keys = [{key for key, _ in mine} for mine in found]
    assert keys[0] & keys[1] == set()
    assert all(keys)
    for mine in found:
        assert [number for _, number in mine] == sorted(number for _, number in mine)


def test_unsubscribe(pulsar_client: pulsar.Client, shared_broker: Running, topic: str) -> None:
    consumer = pulsar_client.subscribe(topic, "sub")
    assert list(shared_broker.reference.broker.topics[topic].subscriptions) == ["sub"]
    consumer.unsubscribe()
    assert shared_broker.reference.broker.topics[topic].subscriptions == {}


def test_producer_names(pulsar_client: pulsar.Client, topic: str) -> None:
    made = pulsar_client.create_producer(topic)
    assert made.producer_name().startswith("reference-0-")
    pulsar_client.create_producer(topic, producer_name="mine")
    with pytest.raises(pulsar.ProducerBusy):
        pulsar_client.create_producer(topic, producer_name="mine")


@pytest.mark.parametrize("compression", [pulsar.CompressionType.LZ4, pulsar.CompressionType.ZSTD])
def test_compressed(pulsar_client: pulsar.Client, topic: str, compression: pulsar.CompressionType) -> None:
    consumer = pulsar_client.subscribe(topic, "sub")
    pulsar_client.create_producer(topic, compression_type=compression).send(b"x" * 10_000)
    assert receive(consumer, 1) == [b"x" * 10_000]


def test_chunked(pulsar_client: pulsar.Client, topic: str) -> None:
    consumer = pulsar_client.subscribe(topic, "sub")
    producer = pulsar_client.create_producer(topic, batching_enabled=False, chunking_enabled=True)
    content = bytes(range(256)) * 40_000  # twice the largest message, and a little
    producer.send(content)
    assert receive(consumer, 1) == [content]


def test_an_oversized_message(pulsar_client: pulsar.Client, topic: str) -> None:
    producer = pulsar_client.create_producer(topic, batching_enabled=False)
    with pytest.raises(pulsar.MessageTooBig):
        producer.send(b"x" * (6 << 20))
    producer.send(b"x" * (5_000_000))


def test_schema(pulsar_client: pulsar.Client, topic: str) -> None:
    schema = pulsar.schema.StringSchema()
    consumer = pulsar_client.subscribe(topic, "sub", schema=schema)
    pulsar_client.create_producer(topic, schema=schema).send("text")
    assert consumer.receive(TIMEOUT_MS).value() == "text"


def test_partitioned_topic(own_broker: Running, topic: str) -> None:
    broker = own_broker.reference.broker
    own_broker.call(broker.make_partitions, parse_name(topic), 3)
    with client(own_broker) as made:
        assert made.get_topic_partitions(topic) == [f"{topic}-partition-{number}" for number in range(3)]
        consumer = made.subscribe(topic, "sub", consumer_type=pulsar.ConsumerType.Shared)
        producer = made.create_producer(
            topic,
            batching_enabled=False,
            message_routing_mode=pulsar.PartitionsRoutingMode.RoundRobinDistribution,
        )
        for number in range(9):
            producer.send(b"%d" % number)
        assert sorted(receive(consumer, 9)) == [b"%d" % number for number in range(9)]
    assert [len(broker.topics[f"{topic}-partition-{number}"].log) for number in range(3)] == [3, 3, 3]


def test_pattern_subscription(pulsar_client: pulsar.Client, topic: str) -> None:
    for end in ("a", "b", "c"):
        pulsar_client.create_producer(f"{topic}-{end}").send(end.encode())
    pattern = re.compile(f"{topic}-[ab]")
    consumer = pulsar_client.subscribe(pattern, "sub", initial_position=EARLIEST)
    assert sorted(receive(consumer, 2)) == [b"a", b"b"]


def test_lookup_over_http(own_broker: Running, topic: str) -> None:
    with client(own_broker, own_broker.admin_url) as made:
        consumer = made.subscribe(topic, "sub")
        made.create_producer(topic).send(b"x")
        assert receive(consumer, 1) == [b"x"]


def test_unloading_makes_clients_reconnect(own_broker: Running, topic: str) -> None:
    with client(own_broker) as made:
        consumer = made.subscribe(topic, "sub")
        reader = made.create_reader(topic, pulsar.MessageId.earliest)
        producer = made.create_producer(topic, batching_enabled=False)
        producer.send(b"1")
        first = consumer.receive(TIMEOUT_MS)
        assert reader.read_next(TIMEOUT_MS).data() == b"1"
        own_broker.call(own_broker.reference.unload, topic)
        producer.send(b"2")
        assert receive(consumer, 2) == [first.data(), b"2"]
        assert reader.read_next(TIMEOUT_MS).data() == b"2"


def test_clients_survive_a_cut_connection(own_broker: Running, topic: str) -> None:
    with client(own_broker) as made:
        consumer = made.subscribe(topic, "sub", consumer_type=pulsar.ConsumerType.Shared)
        producer = made.create_producer(topic, batching_enabled=False)
        producer.send(b"1")
        assert receive(consumer, 1) == [b"1"]
        own_broker.call(own_broker.reference.disconnect_all)
        producer.send(b"2")
        found = receive(consumer, 1)
        if found == [b"1"]:  # its acknowledgement was under way when the connection was cut
            found = receive(consumer, 1)
        assert found == [b"2"]


def test_tokens(topic: str) -> None:
    with running(Settings(tokens={"secret": "alice"})) as broker:
        with client(broker, authentication=pulsar.AuthenticationToken("secret")) as made:
            made.create_producer(topic).send(b"x")
            assert broker.call(lambda: broker.reference.principals) == ["alice"]
        with client(broker, operation_timeout_seconds=1) as stranger:
            with pytest.raises(pulsar.PulsarException):  # it tries again until its time is up
                stranger.create_producer(topic)
            assert broker.reference.broker.topics[topic].producers == {}


def test_broker_entry_metadata(topic: str) -> None:
    with running(Settings(broker_entry_metadata=True)) as broker, client(broker) as made:
        consumer = made.subscribe(topic, "sub")
        made.create_producer(topic, batching_enabled=False).send(b"x")
        assert receive(consumer, 1) == [b"x"]
