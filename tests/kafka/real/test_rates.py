"""Rates on a real broker: how much passes in a window, how it is shared, and how clients take a long hold."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.kafka.real.conftest import NewGate, NewTopic
from tests.kafka.real.support.broker import KafkaBroker
from tests.kafka.real.support.clients import read_topic
from tests.kafka.real.support.families import Family, Mode, RdkafkaFamily
from tests.kafka.real.support.gate import Gate
from tests.kafka.real.support.history import ClientLog, Entry, judge
from tests.real.law import FULL, assert_law
from tests.waiting import LONG_S

from sluicegate.demo.law import Limit

BURST_S = 0.2
IN_FLIGHT = 5
"""Requests that a client has under way at once."""
SMALL = {
    "librdkafka": {"batch.num.messages": 10, "linger.ms": 5},
    "java": {"batch.size": 1_200, "linger.ms": 5},
    "aiokafka": {"batch.size": 1_200, "linger.ms": 5},
}


@pytest.fixture(scope="module")
def full_gate(kafka: KafkaBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gate]:
    """A gateway whose log tells of each batch."""
    with Gate(tmp_path_factory.mktemp("full") / "run", kafka.bootstrap, settings=FULL) as running:
        yield running


@pytest.mark.longer(but="librdkafka")
@pytest.mark.seed("S1-060", "S1-065", "S1-066", "S1-129")
def test_messages_per_second_are_exact_in_every_window(
    kafka: KafkaBroker, full_gate: Gate, new_topic: NewTopic, family: Family
) -> None:
    topic, rate, count = new_topic(), 100, 300
    full_gate.apply({"topics": [{"name": topic, "max_publish_rate": rate, "burst_seconds": BURST_S}]})
    log = family.publish(full_gate.bootstrap, topic, [60] * count, settings=SMALL[family.name])
    assert log.errored == {}
    judge(log, read_topic(kafka.bootstrap, topic)).assert_clean()
    assert_law(full_gate, topic, Limit(rate, rate * BURST_S), "max_publish_rate", count, at_once=IN_FLIGHT)


@pytest.mark.seed("S1-060", "S1-065", "S1-067")
def test_bytes_per_second_are_exact_though_each_batch_is_larger_than_the_burst(
    kafka: KafkaBroker, full_gate: Gate, new_topic: NewTopic
) -> None:
    record_bytes, count = 40_000, 11
    settings = {"batch.num.messages": 1, "linger.ms": 0}
    topic, rate = new_topic(), 100 * 1024
    limit = {"max_publish_rate_bytes": "100KiB/s", "burst_seconds": BURST_S}
    full_gate.apply({"topics": [{"name": topic, **limit}]})
    pads = [record_bytes] * count
    log = RdkafkaFamily().publish(full_gate.bootstrap, topic, pads, settings=settings)
    assert log.errored == {}
    judge(log, read_topic(kafka.bootstrap, topic)).assert_clean()
    law = Limit(rate, rate * BURST_S)
    assert_law(full_gate, topic, law, "max_publish_rate_bytes", count, unit="bytes", at_once=IN_FLIGHT)


@pytest.mark.seed("S1-129")
def test_equal_producers_get_equal_shares(kafka: KafkaBroker, new_gate: NewGate, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=4, message_timestamp_type="LogAppendTime")
    gate = new_gate(max_hold="1h")

    def limit(rate: int) -> None:
        gate.apply({"topics": [{"name": topic, "max_publish_rate": rate, "burst_seconds": BURST_S}]})

    def publish(lane: str) -> ClientLog:
        settings = SMALL["librdkafka"]
        return RdkafkaFamily().publish(gate.bootstrap, topic, [60] * 200, lane=lane, settings=settings)

    def held() -> int:
        rows = gate.decisions(topic=topic, action="delay")
        return len({row["client"].partition("@")[0] for row in rows})

    limit(1)
    lanes = [f"lane-{number}" for number in range(4)]
    with ThreadPoolExecutor(len(lanes)) as pool:
        logs_to_come = [pool.submit(publish, lane) for lane in lanes]
        gate.eventually(lambda: held() == len(lanes), "each waits, however late it has begun")
        limit(200)
        logs = [each.result() for each in logs_to_come]
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


HASTY_S = 5
"""Less than the second batch is held; enough for others, though the broker stands still for a while."""
HASTY: dict[str, dict[str, str | int]] = {
    "java": {"request.timeout.ms": 1_000 * HASTY_S, "delivery.timeout.ms": 1_000 * LONG_S},
    "librdkafka": {"socket.timeout.ms": 1_000 * HASTY_S, "message.timeout.ms": 1_000 * LONG_S},
    "aiokafka": {"request.timeout.ms": 1_000 * HASTY_S},
}


@pytest.mark.longer(but="librdkafka")
def test_a_hold_longer_than_the_clients_time_out(
    kafka: KafkaBroker, new_gate: NewGate, new_topic: NewTopic, family: Family
) -> None:
    topics = {mode: new_topic() for mode in (Mode.PLAIN, Mode.IDEMPOTENT)}
    policies = {"topics": [{"name": topic, "max_publish_rate": 3} for topic in topics.values()]}
    gate = new_gate(policies, max_hold="1m")
    settings = {mode: HASTY[family.name] | {"batch.size": 5_000, "linger.ms": 1_000} for mode in topics}
    if family.name != "aiokafka":
        # Without idempotence clients reorder what they send again, unless they send one request at a time.
        settings[Mode.PLAIN]["max.in.flight.requests.per.connection"] = 1

    def publish(mode: Mode) -> ClientLog:
        begin = time.monotonic()
        # Batches of about 50: the second is held for 16 s, and the client gives up after five, or somewhat
        # later if it stands still meanwhile.
        log = family.publish(
            gate.bootstrap, topics[mode], [80] * 90, mode=mode, lane=mode.value, settings=settings[mode]
        )
        assert time.monotonic() - begin > HASTY_S
        return log

    with ThreadPoolExecutor(len(topics)) as pool:
        logs = dict(zip(topics, pool.map(publish, topics), strict=True))
    # What a client has given up, the gateway must not forward when its time has come.
    time.sleep(14 if any(log.errored for log in logs.values()) else 0.5)
    for mode, log in logs.items():
        judge(log, read_topic(kafka.bootstrap, topics[mode])).assert_clean()
        assert log.unanswered == []
        assert gate.decided(topic=topics[mode], action="delay")[0]["policy"] == "max_publish_rate"
        if (family.name, mode) != ("aiokafka", Mode.PLAIN):  # it reports a time-out, where others try again
            assert log.errored == {}


@pytest.mark.longer(but="librdkafka")
def test_without_acknowledgements_only_refused_batches_are_dropped(
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
