"""Each policy with each client: what the policy says, what happened, and what the client reported."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from aiokafka import AIOKafkaProducer
from tests.kafka.real.conftest import Join, NewGate, NewTopic
from tests.kafka.real.support.broker import KafkaBroker
from tests.kafka.real.support.clients import make_group, read_topic, send_with_confluent
from tests.kafka.real.support.families import AiokafkaFamily, Family, JavaFamily, Mode, RdkafkaFamily
from tests.kafka.real.support.families.base import settled, wall_ms
from tests.kafka.real.support.gate import Gate
from tests.kafka.real.support.history import judge
from tests.kafka.real.support.java import consume_with_java, produce_with_java
from tests.waiting import LONG_S, until

REFUSED = {
    "java": "PolicyViolationException",
    "librdkafka": "POLICY_VIOLATION",
    "aiokafka": "PolicyViolationError",
}
TOO_LARGE = {
    "java": "RecordTooLargeException",
    "librdkafka": "MSG_SIZE_TOO_LARGE",
    "aiokafka": "MessageSizeTooLargeError",
}
FORBIDDEN = {
    "java": "TopicAuthorizationException",
    "librdkafka": "TOPIC_AUTHORIZATION_FAILED",
    "aiokafka": "TopicAuthorizationFailedError",
}
GROUP_FULL = {
    "java": "GroupMaxSizeReachedException",
    "librdkafka": "GROUP_MAX_SIZE_REACHED",
    "aiokafka": "GroupAuthorizationFailedError",
}


@contextmanager
def attached_producer(aiokafka_family: AiokafkaFamily, bootstrap: str, topic: str) -> Iterator[None]:
    """A producer that has published to a topic and stays."""

    async def begin() -> AIOKafkaProducer:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, client_id="attached")
        await producer.start()
        await producer.send_and_wait(topic, b"attached:0", key=b"attached")
        return producer

    producer = aiokafka_family.run(begin()).result(LONG_S)
    try:
        yield
    finally:
        aiokafka_family.run(producer.stop()).result(LONG_S)


@pytest.mark.seed("S1-001", "S1-041", "S1-043", "S1-123", "S1-126")
@pytest.mark.parametrize("mode", [Mode.PLAIN, Mode.IDEMPOTENT])
def test_excess_producers_are_refused(
    gate: Gate, new_topic: NewTopic, family: Family, aiokafka_family: AiokafkaFamily, mode: Mode
) -> None:
    topic = new_topic()
    gate.apply({"topics": [{"name": topic, "max_producers_per_topic": 1}]})
    with attached_producer(aiokafka_family, gate.bootstrap, topic):
        log = family.publish(gate.bootstrap, topic, [0], mode=mode)
        (reason,) = log.errored.values()
        assert reason.startswith(REFUSED[family.name])
        (row,) = gate.decided(topic=topic, action="reject")
        assert (row["policy"], row["current"], row["limit"]) == ("max_producers_per_topic", 1, 1)
        if family.name == "java":
            assert f"Producer limit reached for topic {topic}. Current: 1, Limit: 1." in reason
            assert row["decision_id"] in reason
    log = family.publish(gate.bootstrap, topic, [0], mode=mode)
    assert len(log.acked) == 1


@pytest.mark.seed("S1-002", "S1-034", "S1-124", "S1-126")
def test_groups_that_exist_on_the_broker_count_and_are_never_refused(
    kafka: KafkaBroker,
    new_topic: NewTopic,
    new_gate: NewGate,
    join: Join,
    java_family: JavaFamily,
    aiokafka_family: AiokafkaFamily,
) -> None:
    families: list[Family] = [RdkafkaFamily(), java_family, aiokafka_family]
    topics = {family.name: new_topic(partitions=2) for family in families}
    for name, topic in topics.items():
        make_group(kafka.bootstrap, f"old-{name}", topic)
    gate = new_gate({"max_subscriptions_per_topic": 2})
    for family in families:
        topic, old = topics[family.name], f"old-{family.name}"
        assert settled(join(family, gate.bootstrap, topic, f"new-{family.name}")) == ""
        excess = join(family, gate.bootstrap, topic, f"excess-{family.name}")
        assert settled(excess).startswith(GROUP_FULL[family.name])
        excess.close()
        # The topic is full; a group that exists is no new one.
        assert settled(join(family, gate.bootstrap, topic, old)) == ""
        assert gate.decided(topic=topic, action="reject")[0]["policy"] == "max_subscriptions_per_topic"


PROTOCOLS = [
    ("aiokafka", "classic"),
    ("librdkafka", "classic"),
    ("librdkafka", "consumer"),
    ("java", "classic"),
    ("java", "consumer"),
]


@pytest.mark.seed("S1-003", "S1-004", "S1-037", "S1-038", "S1-041", "S1-043", "S1-124", "S1-126")
@pytest.mark.parametrize("policy", ["max_consumers_per_topic", "max_consumers_per_subscription"])
@pytest.mark.parametrize(("family", "protocol"), PROTOCOLS, indirect=["family"])
def test_excess_consumers_are_refused(
    gate: Gate, new_topic: NewTopic, family: Family, join: Join, protocol: str, policy: str
) -> None:
    topic = new_topic(partitions=2)
    gate.apply({"topics": [{"name": topic, policy: 1}]})
    settings = {} if protocol == "classic" else {"group_protocol": "consumer"}
    per_topic = policy == "max_consumers_per_topic"
    first = join(family, gate.bootstrap, topic, f"{topic}-a", **settings)
    assert settled(first) == ""
    second = join(family, gate.bootstrap, topic, f"{topic}-b" if per_topic else f"{topic}-a", **settings)
    fatal = "_FATAL" if (family.name, protocol) == ("librdkafka", "consumer") else GROUP_FULL[family.name]
    assert settled(second).startswith(fatal)
    assert second.assigned == -1
    second.close()
    if not per_topic:
        other = join(family, gate.bootstrap, topic, f"{topic}-other", **settings)
        assert settled(other) == ""
    rows = gate.decided(topic=topic, action="reject")
    assert {(row["policy"], row["limit"]) for row in rows} == {(policy, 1)}
    first.close()
    third = join(family, gate.bootstrap, topic, f"{topic}-a", **settings)
    assert settled(third) == ""


@pytest.mark.seed("S1-003", "S1-037", "S1-124")
def test_a_consumer_without_a_group_counts_too(
    kafka: KafkaBroker, gate: Gate, new_topic: NewTopic, family: Family, join: Join
) -> None:
    topic = new_topic()
    send_with_confluent(kafka.bootstrap, topic, 10)
    gate.apply({"topics": [{"name": topic, "max_consumers_per_topic": 1}]})
    first = join(family, gate.bootstrap, topic, f"{topic}-group", client_id="first")
    assert settled(first) == ""
    lone = join(family, gate.bootstrap, topic, "", client_id="lone")
    until(lambda: bool(lone.errors), "an error")
    assert lone.errors[0].startswith(FORBIDDEN[family.name])
    assert lone.received == []
    assert gate.decided(topic=topic, action="reject")[0]["policy"] == "max_consumers_per_topic"


@pytest.mark.seed("S1-008", "S1-050", "S1-051", "S1-123", "S1-126")
def test_large_messages_are_refused(
    kafka: KafkaBroker, gate: Gate, new_topic: NewTopic, family: Family
) -> None:
    topic = new_topic()
    gate.apply({"topics": [{"name": topic, "max_message_size": 3_000}]})
    fits = family.publish(gate.bootstrap, topic, [2_500], lane="fits")
    assert len(fits.acked) == 1
    large = family.publish(gate.bootstrap, topic, [3_500], lane="large")
    (reason,) = large.errored.values()
    assert reason.startswith(TOO_LARGE[family.name])
    if family.name == "java":
        assert "Message size exceeds maximum allowed" in reason
    assert gate.decided(topic=topic, action="reject")[0]["reason"] == "invalid"
    judge(fits.merged(large), read_topic(kafka.bootstrap, topic)).assert_clean()


@pytest.mark.longer(but="librdkafka")
@pytest.mark.seed("S1-005", "S1-060", "S1-123")
@pytest.mark.parametrize(
    ("family", "limits"),
    [
        ("aiokafka", {"max_publish_rate": 50}),
        ("librdkafka", {"max_publish_rate": 50}),
        ("java", {"max_publish_rate": 50}),
        ("java", {"max_publish_rate_bytes": "5KiB/s"}),
    ],
    ids=["aiokafka-messages", "librdkafka-messages", "java-messages", "java-bytes"],
    indirect=["family"],
)
def test_fast_producers_are_slowed_down(
    kafka: KafkaBroker, gate: Gate, new_topic: NewTopic, family: Family, limits: dict[str, int | str]
) -> None:
    topic = new_topic()
    gate.apply({"topics": [{"name": topic, "burst_seconds": 0.5, **limits}]})
    begin = time.monotonic()
    # Three seconds' worth, of which half a second's may pass at once; any machine can exceed so low a rate.
    log = family.publish(gate.bootstrap, topic, [100] * 150, settings=small_batches(family))
    elapsed = time.monotonic() - begin
    assert log.errored == {}
    stored = read_topic(kafka.bootstrap, topic)
    judge(log, stored).assert_clean()
    assert elapsed > 1.2
    assert gate.decided(topic=topic, action="delay")[0]["policy"] == next(iter(limits))


_BATCH = 10
"""Records, about, in a batch of `small_batches`."""


def small_batches(family: Family) -> dict[str, str | int]:
    """Settings for batches of about ten records of 100 bytes, so that a rate is not one batch."""
    if family.name == "librdkafka":
        return {"batch.num.messages": _BATCH, "linger.ms": 1}
    return {"batch.size": 1_300, "linger.ms": 1}


@pytest.mark.longer(but="librdkafka")
@pytest.mark.seed("S1-062", "S1-100", "S1-126")
def test_a_rate_may_refuse_instead(
    kafka: KafkaBroker, gate: Gate, new_topic: NewTopic, family: Family
) -> None:
    topic = new_topic()
    # A bucket of a hundred that is all but never filled again.
    limit = {"max_publish_rate": 1, "burst_seconds": 100, "on_limit": {"max_publish_rate": "reject"}}
    gate.apply({"topics": [{"name": topic, **limit}]})
    settings = small_batches(family)
    began = time.monotonic()
    log = family.publish(gate.bootstrap, topic, [100] * 400, mode=Mode.IDEMPOTENT, settings=settings)
    assert {reason.partition(":")[0] for reason in log.errored.values()} == {REFUSED[family.name]}
    assert 50 < len(log.acked) <= 100 + _BATCH + time.monotonic() - began
    judge(log, read_topic(kafka.bootstrap, topic)).assert_clean()


@pytest.mark.longer(but="librdkafka")
@pytest.mark.seed("S1-006", "S1-007", "S1-071", "S1-080", "S1-124")
@pytest.mark.parametrize(
    ("family", "policy"),
    [
        ("aiokafka", "max_dispatch_rate"),
        ("librdkafka", "max_dispatch_rate"),
        ("librdkafka", "max_subscription_dispatch_rate"),
        ("java", "max_subscription_dispatch_rate"),
    ],
    indirect=["family"],
)
def test_fast_consumers_are_slowed_down(
    kafka: KafkaBroker, gate: Gate, new_topic: NewTopic, family: Family, join: Join, policy: str
) -> None:
    topic = new_topic()
    gate.apply({"topics": [{"name": topic, policy: 100, "burst_seconds": 0.5}]})
    # All messages are stored before the consumers join: a slow producer would keep them below the limit.
    sent = send_with_confluent(kafka.bootstrap, topic, 300, settings={"batch.num.messages": 10})
    began_ms = wall_ms()
    groups = [f"{topic}-{number}" for number in range(2)]
    members = [join(family, gate.bootstrap, topic, group, client_id=group) for group in groups]
    assert [settled(member) for member in members] == ["", ""]
    until(lambda: all(len(member.received) >= 100 for member in members), "100 records each")
    for member in members:
        values = [record.value for record in member.received]
        assert values == [entry.value for entry in sent.sent[: len(values)]]
    arrivals = sorted(record.at_ms for member in members for record in member.received)
    elapsed_s = (arrivals[-1] - began_ms) / 1000
    shared = 1 if policy == "max_dispatch_rate" else 2
    # The burst, and then so many a second; one batch more where a fetch ends.
    assert len(arrivals) <= shared * (50 + 100 * elapsed_s + 20) + 20
    assert gate.decided(topic=topic, action="delay")[0]["policy"] == policy


@pytest.mark.longer(but="librdkafka")
@pytest.mark.seed("S1-125")
@pytest.mark.parametrize(
    ("family", "everything"),
    [("aiokafka", False), ("librdkafka", True), ("java", False)],
    indirect=["family"],
)
def test_observe_only_applies_nothing_and_records_decisions(
    kafka: KafkaBroker,
    new_topic: NewTopic,
    new_gate: NewGate,
    family: Family,
    join: Join,
    everything: bool,
) -> None:
    topic = new_topic(partitions=2)
    limits = {
        "max_producers_per_topic": 1,
        "max_subscriptions_per_topic": 1,
        "max_consumers_per_topic": 1,
        "max_message_size": 500,
        "max_publish_rate": 10,
        "max_dispatch_rate": 10,
    }
    policies = limits if everything else limits | {"mode": "observe"}
    gate = new_gate(policies, observe_only=everything)
    logs = [
        family.publish(gate.bootstrap, topic, [100] * 99 + [1_000], lane=lane, mode=Mode.IDEMPOTENT)
        for lane in ("one", "two")
    ]
    members = [join(family, gate.bootstrap, topic, f"{topic}-{name}") for name in ("a", "b")]
    assert [settled(member) for member in members] == ["", ""]
    until(lambda: all(len(member.received) == 200 for member in members), "all records")
    judge(logs[0].merged(logs[1]), read_topic(kafka.bootstrap, topic)).assert_clean()
    would = {"would_reject", "would_delay"}
    gate.eventually(
        lambda: (
            {row["policy"] for row in gate.decisions() if row["action"] in would}
            >= limits.keys() - {"max_producers_per_topic"}
        ),
        "all policies observed",
    )
    assert {row["action"] for row in gate.decisions()} <= would | {"allow"}


@pytest.mark.longer(but="librdkafka")
@pytest.mark.seed("S1-024", "S1-125")
def test_a_topic_is_filled_and_its_limit_raised(
    gate: Gate, new_topic: NewTopic, family: Family, join: Join
) -> None:
    topic = new_topic(partitions=4)
    gate.apply({"topics": [{"name": topic, "max_consumers_per_subscription": 2}]})
    group = f"{topic}-group"
    members = [join(family, gate.bootstrap, topic, group, heartbeat_interval_ms=500) for _ in range(2)]
    assert [settled(member) for member in members] == ["", ""]
    excess = join(family, gate.bootstrap, topic, group, heartbeat_interval_ms=500)
    assert settled(excess).startswith(GROUP_FULL[family.name])
    excess.close()
    gate.apply({"topics": [{"name": topic, "max_consumers_per_subscription": 3}]})
    assert settled(join(family, gate.bootstrap, topic, group, heartbeat_interval_ms=500)) == ""


@pytest.mark.seed("S1-123", "S1-124")
def test_the_java_tools_meet_the_policies(gate: Gate, new_topic: NewTopic) -> None:
    topic = new_topic()
    gate.apply({"topics": [{"name": topic, "max_message_size": 2_000, "max_publish_rate": 1_000}]})
    produced = produce_with_java(
        gate.bootstrap, topic, 2_500, record_bytes=100, properties={"batch.size": "2000"}
    )
    assert produced.sent == 2_500
    assert produced.errors == []
    # 1 667 if all but the first second's worth waits its turn; the client's own start counts too.
    assert produced.records_per_s < 1_700
    single = {"batch.size": "100"}
    refused = produce_with_java(gate.bootstrap, topic, 5, record_bytes=5_000, properties=single)
    assert refused.errors == ["org.apache.kafka.common.errors.RecordTooLargeException"] * 5
    assert consume_with_java(gate.bootstrap, topic, 2_500) == 2_500
    gate.apply({"topics": [{"name": topic, "max_dispatch_rate": 1_000}]})
    begin = time.monotonic()
    assert consume_with_java(gate.bootstrap, topic, 2_500) >= 2_500
    assert time.monotonic() - begin > 1.4
    assert gate.decided(topic=topic, policy="max_dispatch_rate", action="delay")
