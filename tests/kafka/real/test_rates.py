"""Rates on a real broker: what passes in a window, who gets it, and what a long hold does to clients."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.kafka.real.conftest import NewTopic
from tests.kafka.real.support.broker import KafkaBroker
from tests.kafka.real.support.clients import read_topic
from tests.kafka.real.support.families import Family, Mode, RdkafkaFamily
from tests.kafka.real.support.families.base import wall_ms
from tests.kafka.real.support.gate import Gate
from tests.kafka.real.support.history import ClientLog, Entry, Stored, judge
from tests.waiting import LONG_S

BURST_S = 0.2
BATCH = 20
"""Records in one batch of `SMALL`, at most."""
SMALL = {
    "librdkafka": {"batch.num.messages": 10, "linger.ms": 5},
    "java": {"batch.size": 1_200, "linger.ms": 5},
    "aiokafka": {"batch.size": 1_200, "linger.ms": 5},
}


def assert_kept(stored: list[Stored], began_ms: int, rate: float, burst: float, per_record: int = 1) -> None:
    """From the start on, no more has been stored at any moment than the rate allows.

    That holds on any machine: what comes late only makes it less.

    :param began_ms: before the first record was sent.
    :param rate: units a second, as limited.
    :param burst: units that may pass at once, with the batch that takes the bucket into debt.
    :param per_record: units that each record counts for.
    """
    for number, at_ms in enumerate(sorted(record.timestamp_ms for record in stored), start=1):
        # Time stamps are in whole milliseconds, and gate and broker read them from two clocks.
        assert number * per_record <= burst + rate * (at_ms - began_ms + 5) / 1_000


def assert_saturated(gate: Gate, topic: str, policy: str, seconds: float) -> None:
    """The gate has held back what was sent, and never longer than what was under way needs at the rate."""
    held = [row["delay"] for row in gate.decided(topic=topic, policy=policy, action="delay")]
    assert 0 < max(held) <= seconds * 1e9


@pytest.mark.longer(but="librdkafka")
@pytest.mark.seed("S1-060", "S1-065", "S1-066", "S1-129")
def test_messages_per_second_are_exact_under_saturation(
    kafka: KafkaBroker, gate: Gate, new_topic: NewTopic, family: Family
) -> None:
    topic, rate, count = new_topic(message_timestamp_type="LogAppendTime"), 100, 300
    gate.apply({"topics": [{"name": topic, "max_publish_rate": rate, "burst_seconds": BURST_S}]})
    began_ms = wall_ms()
    log = family.publish(gate.bootstrap, topic, [60] * count, settings=SMALL[family.name])
    assert log.errored == {}
    stored = read_topic(kafka.bootstrap, topic)
    judge(log, stored).assert_clean()
    assert_kept(stored, began_ms, rate, rate * BURST_S + BATCH)
    assert_saturated(gate, topic, "max_publish_rate", count / rate)


@pytest.mark.seed("S1-060", "S1-065", "S1-067")
def test_bytes_per_second_are_exact_though_each_batch_is_larger_than_the_burst(
    kafka: KafkaBroker, gate: Gate, new_topic: NewTopic
) -> None:
    record_bytes = 40_000
    settings = {"batch.num.messages": 1, "linger.ms": 0}

    topic, rate = new_topic(message_timestamp_type="LogAppendTime"), 100 * 1024
    limit = {"max_publish_rate_bytes": "100KiB/s", "burst_seconds": BURST_S}
    gate.apply({"topics": [{"name": topic, **limit}]})
    began_ms = wall_ms()
    log = RdkafkaFamily().publish(gate.bootstrap, topic, [record_bytes] * 11, settings=settings)
    assert log.errored == {}
    stored = read_topic(kafka.bootstrap, topic)
    judge(log, stored).assert_clean()
    assert_kept(stored, began_ms, rate, rate * BURST_S + record_bytes, record_bytes)
    assert_saturated(gate, topic, "max_publish_rate_bytes", 11 * (record_bytes + 200) / rate)


@pytest.mark.seed("S1-129")
def test_equal_producers_get_equal_shares(kafka: KafkaBroker, gate: Gate, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=4, message_timestamp_type="LogAppendTime")
    gate.apply({"topics": [{"name": topic, "max_publish_rate": 200, "burst_seconds": BURST_S}]})
    lanes = [f"lane-{number}" for number in range(4)]
    with ThreadPoolExecutor(len(lanes)) as pool:
        logs = list(
            pool.map(
                lambda lane: RdkafkaFamily().publish(
                    gate.bootstrap, topic, [60] * 200, lane=lane, settings=SMALL["librdkafka"]
                ),
                lanes,
            )
        )
    stored = read_topic(kafka.bootstrap, topic)
    judge(logs[0].merged(*logs[1:]), stored).assert_clean()
    times: dict[str, list[int]] = {lane: [] for lane in lanes}
    for record in stored:
        times[Entry.parse(record.value).lane].append(record.timestamp_ms)
    # From when the last one has begun until the first one is through, all of them saturate.
    begin, end = max(min(each) for each in times.values()), min(max(each) for each in times.values())
    shares = {lane: sum(begin < at_ms < end for at_ms in each) for lane, each in times.items()}
    assert min(shares.values()) > 20
    jain = sum(shares.values()) ** 2 / (len(lanes) * sum(share**2 for share in shares.values()))
    assert jain > 0.95, shares


HASTY: dict[str, dict[str, str | int]] = {
    "java": {"request.timeout.ms": 2_000, "delivery.timeout.ms": 1_000 * LONG_S},
    "librdkafka": {"socket.timeout.ms": 2_000, "message.timeout.ms": 1_000 * LONG_S},
    "aiokafka": {"request.timeout.ms": 2_000},
}


def test_a_hold_longer_than_the_clients_time_out(
    kafka: KafkaBroker, gate: Gate, new_topic: NewTopic, family: Family
) -> None:
    topics = {mode: new_topic() for mode in (Mode.PLAIN, Mode.IDEMPOTENT)}
    gate.apply({"topics": [{"name": topic, "max_publish_rate": 12} for topic in topics.values()]})
    settings = {mode: HASTY[family.name] | {"batch.size": 5_000, "linger.ms": 1_000} for mode in topics}
    if family.name != "aiokafka":
        # Without idempotence clients reorder what they send again, unless they send one request at a time.
        settings[Mode.PLAIN]["max.in.flight.requests.per.connection"] = 1

    def publish(mode: Mode) -> ClientLog:
        begin = time.monotonic()
        # Batches of about 50: the second is held for three seconds, and the client gives up after two.
        log = family.publish(
            gate.bootstrap, topics[mode], [80] * 90, mode=mode, lane=mode.value, settings=settings[mode]
        )
        assert time.monotonic() - begin > 2
        return log

    with ThreadPoolExecutor(len(topics)) as pool:
        logs = dict(zip(topics, pool.map(publish, topics), strict=True))
    # What a client has given up, the gate must not forward when its time has come.
    time.sleep(4 if any(log.errored for log in logs.values()) else 0.5)
    for mode, log in logs.items():
        judge(log, read_topic(kafka.bootstrap, topics[mode])).assert_clean()
        assert log.unanswered == []
        assert gate.decided(topic=topics[mode], action="delay")[0]["policy"] == "max_publish_rate"
        if (family.name, mode) != ("aiokafka", Mode.PLAIN):  # it reports a time-out, where others try again
            assert log.errored == {}


@pytest.mark.longer(but="librdkafka")
def test_without_acknowledgements_the_refused_is_dropped_and_nothing_else(
    kafka: KafkaBroker, gate: Gate, new_topic: NewTopic, family: Family
) -> None:
    topic = new_topic()
    gate.apply({"topics": [{"name": topic, "max_message_size": 2_000}]})
    pads = [5_000 if number % 10 == 5 else 60 for number in range(200)]
    single = {"batch.num.messages": 1} if family.name == "librdkafka" else {"batch.size": 1}
    log = family.publish(gate.bootstrap, topic, pads, settings={"acks": 0, **single})
    assert log.errored == {}
    small = [entry for entry, pad in zip(log.sent, pads, strict=True) if pad == 60]
    gate.eventually(lambda: len(read_topic(kafka.bootstrap, topic)) >= len(small), "all small ones stored")
    stored = read_topic(kafka.bootstrap, topic)
    assert [Entry.parse(record.value) for record in stored] == small
    assert len(gate.decided(20, topic=topic, policy="max_message_size")) == 20
