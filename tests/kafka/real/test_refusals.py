"""Refusals in a stream: refused records are not stored, all others are, once and in order."""

import pytest
from tests.kafka.real.conftest import NewTopic
from tests.kafka.real.support.broker import KafkaBroker
from tests.kafka.real.support.clients import read_topic
from tests.kafka.real.support.families import Family, Mode, franz
from tests.kafka.real.support.gate import Gate
from tests.kafka.real.support.history import ClientLog, judge
from tests.real.needs import need

LIMIT = 2_000
TOO_LARGE, SMALL = 5_000, 60
# Batches of a few records, several requests under way: a refusal meets others before and behind it.
SMALL_BATCHES: dict[str, dict[str, str | int]] = {
    "java": {"batch.size": 500, "linger.ms": 0, "max.in.flight.requests.per.connection": 5},
    "librdkafka": {"batch.num.messages": 3, "linger.ms": 0, "max.in.flight": 5},
    "aiokafka": {"batch.size": 500},
}
ANSWERS = {
    "java": {"RecordTooLargeException", "PolicyViolationException"},
    "librdkafka": {"MSG_SIZE_TOO_LARGE", "POLICY_VIOLATION"},
    "aiokafka": {"MessageSizeTooLargeError", "PolicyViolationError"},
}


def reasons(log: ClientLog) -> set[str]:
    """Names of the errors that the client reported."""
    return {reason.partition(":")[0] for reason in log.errored.values()}


@pytest.mark.seed("S1-051", "S1-123", "S1-126")
@pytest.mark.parametrize("mode", [Mode.PLAIN, Mode.IDEMPOTENT])
def test_every_seventh_record_is_too_large(
    kafka: KafkaBroker, gate: Gate, new_topic: NewTopic, family: Family, mode: Mode
) -> None:
    topic = new_topic()
    gate.apply({"topics": [{"name": topic, "max_message_size": LIMIT}]})
    pads = [TOO_LARGE if number % 7 == 3 else SMALL for number in range(1_050)]
    log = family.publish(gate.bootstrap, topic, pads, mode=mode, settings=SMALL_BATCHES[family.name])
    assert log.unanswered == []
    assert reasons(log) <= ANSWERS[family.name]
    too_large = {entry for entry, pad in zip(log.sent, pads, strict=True) if pad == TOO_LARGE}
    assert too_large <= log.errored.keys()
    # Small records fail only where they share a batch with one that is too large.
    assert len(log.acked) > 300
    assert log.sent[-1] in log.acked
    judge(log, read_topic(kafka.bootstrap, topic)).assert_clean()


def test_franz_go_fails_what_was_under_way_and_none_of_it_is_stored(
    kafka: KafkaBroker, gate: Gate, new_topic: NewTopic
) -> None:
    need(franz.why_missing())
    topic = new_topic()
    gate.apply({"topics": [{"name": topic, "max_message_size": LIMIT}]})
    pads = [TOO_LARGE if number % 70 == 33 else SMALL for number in range(1_400)]
    log = franz.publish(gate.bootstrap, topic, pads, batch_bytes=6_000)
    assert log.unanswered == []
    assert len(log.errored) >= 20
    judge(log, read_topic(kafka.bootstrap, topic)).assert_clean()


@pytest.mark.seed("S1-051", "S1-123")
def test_transactions_with_a_refused_record_abort_and_the_next_ones_commit(
    kafka: KafkaBroker, gate: Gate, new_topic: NewTopic, family: Family
) -> None:
    topic = new_topic()
    gate.apply({"topics": [{"name": topic, "max_message_size": LIMIT}]})
    per_transaction = 20
    pads = [TOO_LARGE if number % (2 * per_transaction) == 5 else SMALL for number in range(1_000)]
    log = family.publish(
        gate.bootstrap,
        topic,
        pads,
        mode=Mode.TRANSACTIONAL,
        per_transaction=per_transaction,
        settings=SMALL_BATCHES[family.name],
    )
    committed = {entry for number, entry in enumerate(log.sent) if number // per_transaction % 2 == 1}
    assert log.acked.keys() == committed
    assert log.errored.keys() == set(log.sent) - committed
    judge(log, read_topic(kafka.bootstrap, topic, committed_only=True)).assert_clean()
