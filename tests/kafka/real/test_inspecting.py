"""Compressed batches of stock clients are inspected: compression does not bypass a limit."""

import google_crc32c
import pytest
from tests.kafka.codec.packing import FORMS, packed_batch
from tests.kafka.real.conftest import NewTopic
from tests.kafka.real.support.broker import KafkaBroker
from tests.kafka.real.support.clients import read_topic
from tests.kafka.real.support.families import Family, Mode
from tests.kafka.real.support.gate import Gate
from tests.kafka.real.support.history import judge
from tests.kafka.real.support.raw import RawClient
from tests.kafka.real.test_refusals import ANSWERS, LIMIT, SMALL, SMALL_BATCHES, TOO_LARGE, reasons
from tests.kafka.session.messages import batch, outcome, produce

CODECS = ("gzip", "snappy", "lz4", "zstd")
CLIENTS = [*((name, codec) for name in ("java", "librdkafka") for codec in CODECS), ("aiokafka", "gzip")]
"""aiokafka has the other codecs only with further packages."""


@pytest.mark.parametrize(("family", "codec"), CLIENTS, indirect=["family"])
@pytest.mark.parametrize("mode", [pytest.param(Mode.PLAIN, marks=pytest.mark.longer), Mode.IDEMPOTENT])
def test_every_seventh_record_is_too_large(
    kafka: KafkaBroker, gate: Gate, new_topic: NewTopic, family: Family, codec: str, mode: Mode
) -> None:
    topic = new_topic()
    gate.apply({"topics": [{"name": topic, "max_message_size": LIMIT, "inspect": True}]})
    pads = [TOO_LARGE if number % 7 == 3 else SMALL for number in range(140)]
    settings = SMALL_BATCHES[family.name] | {"compression.type": codec}
    log = family.publish(gate.bootstrap, topic, pads, mode=mode, settings=settings)
    assert log.unanswered == []
    assert reasons(log) <= ANSWERS[family.name]
    too_large = {entry for entry, pad in zip(log.sent, pads, strict=True) if pad == TOO_LARGE}
    assert too_large <= log.errored.keys()
    # A Java batch for a record of 5 kB has room for small ones behind it: they fail with it, the last too.
    assert log.acked.keys() & set(log.sent[4:])
    judge(log, read_topic(kafka.bootstrap, topic)).assert_clean()


def test_without_inspection_a_compressed_batch_counts_whole(
    kafka: KafkaBroker, gate: Gate, new_topic: NewTopic, family: Family
) -> None:
    topic = new_topic()
    gate.apply({"topics": [{"name": topic, "max_message_size": LIMIT}]})
    log = family.publish(gate.bootstrap, topic, [TOO_LARGE] * 20, settings={"compression.type": "gzip"})
    assert len(log.acked) == 20
    judge(log, read_topic(kafka.bootstrap, topic)).assert_clean()


def with_checksum(records: bytes) -> bytes:
    """A batch whose checksum is right, whatever was changed in it."""
    checksum = google_crc32c.value(records[21:])
    return bytes(records[:17] + checksum.to_bytes(4, "big") + records[21:])


@pytest.mark.parametrize("form", [*FORMS, "none"])
@pytest.mark.parametrize("claimed", [1, 101])
def test_the_broker_itself_refuses_a_false_number_of_records(
    kafka: KafkaBroker, new_topic: NewTopic, form: str, claimed: int
) -> None:
    """That is why a record count needs no look."""
    topic = new_topic()
    plain = batch(*[b"x"] * 100, timestamp_ms=1_700_000_000_000)
    true = with_checksum(plain if form == "none" else packed_batch(plain, form))
    assert produced(kafka, topic, true) == 0
    last_offset = (claimed - 1).to_bytes(4, "big")
    false = true[:23] + last_offset + true[27:57] + claimed.to_bytes(4, "big") + true[61:]
    assert produced(kafka, topic, with_checksum(false)) != 0
    assert len(read_topic(kafka.bootstrap, topic)) == 100


def produced(kafka: KafkaBroker, topic: str, records: bytes) -> int:
    with RawClient(kafka.bootstrap) as client:
        client.send(produce({topic: records}))
        return outcome(client.frame())[topic, 0][0]
