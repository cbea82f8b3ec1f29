"""How clients that share one client id are counted; groups that subscribe by patterns."""

import time
from itertools import count

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import KafkaError, Message, Producer
from tests.kafka.real.conftest import Join, NewTopic
from tests.kafka.real.support.broker import KafkaBroker
from tests.kafka.real.support.clients import make_group, send_with_confluent
from tests.kafka.real.support.families import AiokafkaFamily, Family
from tests.kafka.real.support.families.base import settled, wall_ms
from tests.kafka.real.support.gate import Gate
from tests.waiting import LONG_S, until

PRODUCERS = "max_producers_per_topic"
CONSUMERS = "max_consumers_per_topic"
PATTERNS = [("librdkafka", "consumer"), ("java", "consumer")]
_names = count(1)


def rdkafka_outcome(producer: Producer, topic: str) -> str:
    """Send one record; the error's name, or "" if it was stored."""
    told: list[str] = []

    def answered(error: KafkaError | None, message: Message) -> None:
        told.append("" if error is None else error.name())

    producer.produce(topic, b"x", on_delivery=answered)
    assert producer.flush(LONG_S) == 0
    return told[0]


@pytest.mark.seed("S1-001", "S1-033")
def test_equal_producers_are_counted_one_by_one(gate: Gate, new_topic: NewTopic) -> None:
    """librdkafka at its defaults: no idempotence, and one client id for all."""
    topic = new_topic(partitions=3)
    gate.apply({"topics": [{"name": topic, PRODUCERS: 2}]})
    producers = [Producer({"bootstrap.servers": gate.bootstrap}) for _ in range(6)]
    outcomes = [rdkafka_outcome(producer, topic) for producer in producers]
    assert outcomes == ["", "", *["POLICY_VIOLATION"] * 4]
    assert [rdkafka_outcome(producer, topic) for producer in producers] == outcomes, "they stay who they are"

    del producers[0]  # librdkafka closes a producer with its last reference
    gate.eventually(lambda: rdkafka_outcome(producers[1], topic) == "", "the first one's place is free")
    assert [rdkafka_outcome(producer, topic) for producer in producers[:3]] == ["", "", "POLICY_VIOLATION"]


@pytest.mark.seed("S1-001", "S1-033")
def test_equal_producers_of_an_event_loop(
    gate: Gate, new_topic: NewTopic, aiokafka_family: AiokafkaFamily
) -> None:
    topic = new_topic(partitions=3)
    gate.apply({"topics": [{"name": topic, PRODUCERS: 2}]})

    async def outcomes() -> list[str]:
        found = []
        producers = []
        for _ in range(4):
            producer = AIOKafkaProducer(bootstrap_servers=gate.bootstrap)
            await producer.start()
            producers.append(producer)
            (answer,) = [await producer.send(topic, b"x")]
            try:
                await answer
                found.append("")
            except Exception as error:  # noqa: BLE001 - whatever the client raises is what is tested
                found.append(type(error).__name__)
        for producer in producers:
            await producer.stop()
        return found

    assert aiokafka_family.run(outcomes()).result(LONG_S) == ["", "", *["PolicyViolationError"] * 2]


@pytest.mark.seed("S1-003", "S1-037")
def test_equal_consumers_without_a_group_are_counted_one_by_one(
    kafka: KafkaBroker, gate: Gate, new_topic: NewTopic, family: Family, join: Join
) -> None:
    topic = new_topic()
    send_with_confluent(kafka.bootstrap, topic, 10)
    gate.apply({"topics": [{"name": topic, CONSUMERS: 1}]})
    # Java's clients have a client id each by default, which is why they get one here.
    settings = {"client_id": "same"} if family.name == "java" else {}
    members = [join(family, gate.bootstrap, topic, "", **settings) for _ in range(5)]
    until(
        lambda: (
            sum(bool(member.errors) for member in members) >= 4 and any(member.received for member in members)
        ),
        "one reads, the others are refused",
    )
    assert sorted(len(member.received) for member in members)[:4] == [0, 0, 0, 0]
    until(lambda: any(len(member.received) == 10 for member in members), "the one reads all there is")
    assert sum(bool(member.errors) for member in members) == 4


@pytest.mark.seed("S1-007", "S1-080")
def test_two_groups_of_equal_clients_have_a_rate_each(
    kafka: KafkaBroker, gate: Gate, new_topic: NewTopic, family: Family, join: Join
) -> None:
    topic, rate, burst_s = new_topic(), 200, 0.5
    limit = {"max_subscription_dispatch_rate": rate, "burst_seconds": burst_s}
    gate.apply({"topics": [{"name": topic, **limit}]})
    ambiguous = gate.metric("sluicegate_broker_events_total", event="fetch_group_ambiguous")
    settings = {"client_id": "same"} if family.name == "java" else {}
    groups = [f"{topic}-{number}" for number in range(2)]
    # All messages are stored before the consumers join: a slow producer would keep them below the limit.
    send_with_confluent(kafka.bootstrap, topic, 600, settings={"batch.num.messages": 10})
    began_ms = wall_ms()
    members = [join(family, gate.bootstrap, topic, group, **settings) for group in groups]
    assert [settled(member) for member in members] == ["", ""]
    until(lambda: all(len(member.received) >= 500 for member in members), "500 records each")
    for member in members:
        for number, record in enumerate(member.received, start=1):
            # The burst and one batch more, and then so many a second.
            assert number <= rate * burst_s + 20 + rate * (record.at_ms - began_ms + 5) / 1_000

    def held() -> set[str]:
        rows = gate.decisions(topic=topic, policy="max_subscription_dispatch_rate", action="delay")
        return {row["subscription"] for row in rows}

    gate.eventually(lambda: held() == set(groups), "each group was held")
    assert gate.metric("sluicegate_broker_events_total", event="fetch_group_ambiguous") == ambiguous


@pytest.mark.seed("S1-007", "S1-080")
def test_a_consumer_without_a_group_has_a_rate_of_its_own(
    kafka: KafkaBroker, gate: Gate, new_topic: NewTopic, family: Family, join: Join
) -> None:
    topic, rate, burst_s = new_topic(), 200, 0.5
    limit = {"max_subscription_dispatch_rate": rate, "burst_seconds": burst_s}
    gate.apply({"topics": [{"name": topic, **limit}]})
    began_ms = wall_ms()
    send_with_confluent(kafka.bootstrap, topic, 400, settings={"batch.num.messages": 10})
    members = [join(family, gate.bootstrap, topic, "") for _ in range(2)]
    until(lambda: all(len(member.received) >= 300 for member in members), "300 records each")
    for member in members:
        for number, record in enumerate(member.received, start=1):
            assert number <= rate * burst_s + 20 + rate * (record.at_ms - began_ms + 5) / 1_000


@pytest.mark.seed("S1-039")
def test_a_partition_has_one_consumer_of_a_group_whatever_the_policy(
    kafka: KafkaBroker, gate: Gate, new_topic: NewTopic, family: Family, join: Join
) -> None:
    """Kafka's own kind of an exclusive subscription."""
    topic, group = new_topic(), f"group-{next(_names)}-{time.time_ns()}"
    gate.apply({"topics": [{"name": topic, CONSUMERS: 0, "max_consumers_per_subscription": 0}]})
    members = [join(family, gate.bootstrap, topic, group, heartbeat_interval_ms=500) for _ in range(2)]
    until(lambda: sorted(member.assigned for member in members) == [0, 1], "one of them has the partition")
    send_with_confluent(kafka.bootstrap, topic, 50)
    until(lambda: any(len(member.received) == 50 for member in members), "one of them gets all records")
    assert sorted(len(member.received) for member in members) == [0, 50]
    assert [member.errors for member in members] == [[], []]


# -- patterns that the broker resolves (KIP-848) --------------------------------------------------------


@pytest.fixture
def pattern(new_topic: NewTopic) -> tuple[str, str]:
    """A pattern, and the topic that it is for."""
    prefix = f"pattern-{time.time_ns()}"
    return f"^{prefix}.*", new_topic(prefix, partitions=2)


@pytest.mark.seed("S1-004", "S1-038")
@pytest.mark.parametrize("policy", [CONSUMERS, "max_consumers_per_subscription"])
@pytest.mark.parametrize(("family", "protocol"), PATTERNS, indirect=["family"])
def test_a_member_by_pattern_counts_before_its_assignment(
    kafka: KafkaBroker,
    gate: Gate,
    pattern: tuple[str, str],
    family: Family,
    join: Join,
    protocol: str,
    policy: str,
) -> None:
    regex, topic = pattern
    gate.apply({"topics": [{"name": topic, policy: 1}]})
    send_with_confluent(kafka.bootstrap, topic, 20)
    group = f"{topic}-a"
    first = join(family, gate.bootstrap, regex, group, group_protocol=protocol)
    until(lambda: len(first.received) == 20, "all records")
    if policy == CONSUMERS:
        group = f"{topic}-b"
    second = join(family, gate.bootstrap, regex, group, group_protocol=protocol)
    until(lambda: bool(second.errors), "the second one is refused")
    assert second.received == []
    row = gate.decided(topic=topic, action="reject")[0]
    assert (row["policy"], row["subscription"], row["limit"]) == (policy, group, 1)
    # It keeps no partition from the first one.
    send_with_confluent(kafka.bootstrap, topic, 20)
    until(lambda: len(first.received) == 40, "the first one gets all")
    assert first.errors == []


@pytest.mark.seed("S1-002", "S1-034")
@pytest.mark.parametrize(("family", "protocol"), PATTERNS, indirect=["family"])
def test_a_group_by_pattern_is_a_subscription(
    kafka: KafkaBroker,
    gate: Gate,
    pattern: tuple[str, str],
    family: Family,
    join: Join,
    protocol: str,
) -> None:
    regex, topic = pattern
    gate.apply({"topics": [{"name": topic, "max_subscriptions_per_topic": 1}]})
    make_group(kafka.bootstrap, f"{topic}-old", topic)
    send_with_confluent(kafka.bootstrap, topic, 20)
    excess = join(family, gate.bootstrap, regex, f"{topic}-new", group_protocol=protocol)
    until(lambda: bool(excess.errors), "the new group is refused")
    assert excess.received == []
    excess.close()
    old = join(family, gate.bootstrap, regex, f"{topic}-old", group_protocol=protocol)
    until(lambda: len(old.received) == 20, "the group that exists reads")
