"""After a refusal the broker sees an idempotent producer's batches without a gap."""

import struct
import tracemalloc

from google_crc32c import value as crc32c
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.model import Action, Decision
from sluicegate_kafka.codec.frames import parse_request_head
from sluicegate_kafka.codec.produce_requests import ProduceRequest, scan_produce
from sluicegate_kafka.session.shared.sequences import OUT_OF_ORDER, GapCount, Sequences

PRODUCER = 77
REFUSAL = Decision(Action.REJECT, ())


def produce(
    sequence: int, count: int, *, epoch: int = 0, topic: str = "t", transactional: bool = False
) -> bytes:
    """A Produce v7 frame (with length) of one batch of an idempotent producer."""
    covered = (
        struct.pack(">hiqqqhii", 16 * transactional, count - 1, 1, 2, PRODUCER, epoch, sequence, count)
        + b"records"
    )
    batch = struct.pack(">qiibI", 0, len(covered) + 9, -1, 2, crc32c(covered)) + covered
    name = topic.encode()
    body = struct.pack(">hhii", -1, -1, 1000, 1) + struct.pack(">h", len(name)) + name
    body += struct.pack(">iii", 1, 0, len(batch)) + batch
    request = struct.pack(">hhih", 0, 7, 5, 2) + b"id" + body
    return struct.pack(">i", len(request)) + request


def scanned(frame: bytes) -> ProduceRequest:
    """The frame as the session sees it."""
    return scan_produce(frame, parse_request_head(frame, 4))


def sequence_and_checksum(request: ProduceRequest) -> tuple[int, bool]:
    """A request's base sequence, and whether its checksum holds."""
    topic = request.topics[0]
    start, end = topic.records[0]
    (stated,) = struct.unpack_from(">I", topic.frame, start + 17)
    (sequence,) = struct.unpack_from(">i", topic.frame, start + 53)
    return sequence, stated == crc32c(topic.frame[start + 21 : end])


def test_a_client_that_never_closes_the_gap_stays_renumbered() -> None:
    sequences = Sequences(GapCount(), renumbers=True)
    sequences.refused(scanned(produce(10, 5)).topics[0], REFUSAL)
    seen = []
    for sequence, count in ((15, 2), (17, 3), (20, 1)):
        request = sequences.mend(scanned(produce(sequence, count)))
        seen.append(sequence_and_checksum(request))
        sequences.passed(request.topics[0])
    assert seen == [(10, True), (12, True), (15, True)]


def test_a_client_that_closes_the_gap_itself_is_not_renumbered() -> None:
    sequences = Sequences(GapCount(), renumbers=True)
    sequences.refused(scanned(produce(10, 5)).topics[0], REFUSAL)
    original = scanned(produce(10, 2))
    mended = sequences.mend(original)
    assert mended is original
    assert not sequences.gaps


def test_a_batch_under_way_is_renumbered_and_then_the_client_takes_over() -> None:
    sequences = Sequences(GapCount(), renumbers=True)
    sequences.refused(scanned(produce(10, 5)).topics[0], REFUSAL)
    under_way = sequences.mend(scanned(produce(15, 4)))
    sequences.passed(under_way.topics[0])
    adjusted = sequences.mend(scanned(produce(14, 1)))
    assert sequence_and_checksum(under_way) == (10, True)
    assert sequence_and_checksum(adjusted) == (14, True)
    assert not sequences.gaps


def test_a_retry_keeps_its_number() -> None:
    sequences = Sequences(GapCount(), renumbers=True)
    sequences.refused(scanned(produce(0, 1)).topics[0], REFUSAL)
    for _ in range(2):
        request = sequences.mend(scanned(produce(1, 1)))
        assert sequence_and_checksum(request) == (0, True)
        sequences.passed(request.topics[0])
    later = sequences.mend(scanned(produce(2, 1)))
    assert sequence_and_checksum(later) == (1, True)


def test_a_new_epoch_starts_without_a_gap() -> None:
    sequences = Sequences(GapCount(), renumbers=True)
    sequences.refused(scanned(produce(10, 5)).topics[0], REFUSAL)
    original = scanned(produce(15, 2, epoch=1))
    assert sequences.mend(original) is original
    assert not sequences.gaps


def test_another_topic_of_the_same_producer_is_not_touched() -> None:
    sequences = Sequences(GapCount(), renumbers=True)
    sequences.refused(scanned(produce(10, 5)).topics[0], REFUSAL)
    original = scanned(produce(15, 2, topic="other"))
    assert sequences.mend(original) is original


def test_a_gap_takes_little_memory() -> None:
    count = GapCount()
    sequences = Sequences(count, renumbers=True)
    topics = [scanned(produce(10, 5, topic=f"t{place}")).topics[0] for place in range(1_000)]
    tracemalloc.start()
    try:
        for topic in topics:
            sequences.refused(topic, REFUSAL)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count.gaps == 1_000
    assert taken / count.gaps < 600


@given(
    start=st.integers(0, 2**31 - 1),
    batches=st.lists(st.tuples(st.integers(1, 1000), st.booleans()), min_size=1, max_size=40),
)
def test_the_broker_never_sees_a_gap(start: int, batches: list[tuple[int, bool]]) -> None:
    sequences = Sequences(GapCount(), renumbers=True)
    client = broker = start
    for count, refuse in batches:
        request = sequences.mend(scanned(produce(client, count)))
        sequence, intact = sequence_and_checksum(request)
        assert (sequence, intact) == (broker, True)
        client = (client + count) % 2**31
        if refuse:
            sequences.refused(request.topics[0], REFUSAL)
        else:
            broker = (broker + count) % 2**31
            sequences.passed(request.topics[0])


def refusing() -> Sequences:
    """Those of a client that closes its gaps, of which the batches 10 to 14 were refused."""
    sequences = Sequences(GapCount(), renumbers=False)
    sequences.refused(scanned(produce(10, 5)).topics[0], REFUSAL)
    return sequences


def decided(sequences: Sequences, sequence: int, count: int, *, epoch: int = 0) -> Decision | None:
    """What becomes of a batch; its number is never changed."""
    request = scanned(produce(sequence, count, epoch=epoch))
    assert sequences.mend(request) is request
    return sequences.decided(request.topics[0])


def test_what_follows_a_gap_is_refused_until_the_client_closes_it() -> None:
    sequences = refusing()
    assert [decided(sequences, number, 1) for number in (15, 16, 17)] == [OUT_OF_ORDER] * 3
    assert decided(sequences, 9, 1) is None, "a batch before it, sent again"
    assert decided(sequences, 10, 1) is None
    assert decided(sequences, 11, 1) is None
    assert not sequences.gaps


def test_a_new_epoch_closes_the_gap() -> None:
    sequences = refusing()
    assert decided(sequences, 15, 1) is OUT_OF_ORDER
    assert decided(sequences, 0, 1, epoch=1) is None
    assert not sequences.gaps


def test_a_transactional_producer_is_renumbered() -> None:
    sequences = Sequences(GapCount(), renumbers=False)
    sequences.refused(scanned(produce(10, 5, transactional=True)).topics[0], REFUSAL)
    request = sequences.mend(scanned(produce(15, 2, transactional=True)))
    assert sequence_and_checksum(request) == (10, True)
    assert sequences.decided(request.topics[0]) is None


def test_a_renumbered_batch_that_is_sent_again_keeps_its_number() -> None:
    sequences = Sequences(GapCount(), renumbers=False)
    sequences.refused(scanned(produce(10, 5, transactional=True)).topics[0], REFUSAL)
    for _ in range(2):
        request = sequences.mend(scanned(produce(15, 2, transactional=True)))
        assert sequence_and_checksum(request) == (10, True)
        sequences.postponed(request.topics[0])
    sequences.passed(request.topics[0])
    behind = sequences.mend(scanned(produce(17, 1, transactional=True)))
    assert sequence_and_checksum(behind) == (12, True)


def test_numbers_behind_the_largest_follow_it() -> None:
    sequences = Sequences(GapCount(), renumbers=False)
    sequences.refused(scanned(produce(2**31 - 2, 2)).topics[0], REFUSAL)
    assert decided(sequences, 0, 1) is OUT_OF_ORDER
    assert decided(sequences, 2**31 - 3, 1) is None


def test_all_clients_gaps_are_counted_together() -> None:
    count = GapCount()
    first, second = Sequences(count, renumbers=True), Sequences(count, renumbers=True)
    first.refused(scanned(produce(10, 5)).topics[0], REFUSAL)
    first.refused(scanned(produce(0, 1, epoch=1)).topics[0], REFUSAL)
    assert count.gaps == 1, "a new epoch's gap replaces the older one"
    for place in range(1_001):
        second.refused(scanned(produce(10, 5, topic=f"t{place}")).topics[0], REFUSAL)
    assert count.gaps == 1_001, "a client has up to 1,000"
    first.mend(scanned(produce(0, 1, epoch=1)))
    assert count.gaps == 1_000
    second.clear()
    assert count.gaps == 0
    assert not second.gaps
