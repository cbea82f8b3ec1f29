"""Long work is done in slices: the session asks for a turn between two of them and keeps the order."""

import struct
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise

import pytest
from tests.kafka.session.messages import batch, fetch, fetched, join, outcome, produce, topics_of
from tests.kafka.session.wire import Bench, Wire

from sluicegate.broker import NextTurn
from sluicegate_kafka.codec.record_walk import RECORDS_PER_SLICE
from sluicegate_kafka.codec.records import BATCH_OVERHEAD, MAX_BATCHES, MAX_HEADERS, Batch, iter_batches
from sluicegate_kafka.session.fetching import fetching
from sluicegate_kafka.session.requests.connection import TOPICS_PER_SLICE
from sluicegate_kafka.session.shared.listing import ListGroups

TINY = b"\x0c\0\0\0\x01\x01\0"
"""A record of seven bytes: neither key nor value nor headers."""
NOT_ENOUGH_REPLICAS, POLICY_VIOLATION, GROUP_MAX_SIZE_REACHED = 19, 44, 81


def stored(records: bytes, count: int) -> bytes:
    """A batch of these records."""
    length = BATCH_OVERHEAD - 12 + len(records)
    return struct.pack(">qiibIhiqqqhii", 0, length, 0, 2, 0, 0, 0, 10, 20, -1, -1, -1, count) + records


def record(value: int, headers: int = 0) -> bytes:
    """A record with so many bytes of value, and so many empty headers."""
    rest = b"\0\0\0\x01" + _varint(value) + bytes(value) + _varint(headers) + bytes(2 * headers)
    return _varint(len(rest)) + rest


def commit(group: str, topics: Mapping[str, int], correlation_id: int = 1) -> bytes:
    """An OffsetCommit request for so many partitions of each topic."""

    def text(value: str) -> bytes:
        return struct.pack(">h", len(value)) + value.encode()

    body = struct.pack(">hhi", 8, 7, correlation_id) + text("app") + text(group) + struct.pack(">i", -1)
    body += text("") + b"\xff\xff" + struct.pack(">i", len(topics))
    for name, partitions in topics.items():
        body += text(name) + struct.pack(">i", partitions)
        body += b"".join(struct.pack(">iqih", index, 5, -1, 0) for index in range(partitions))
    return struct.pack(">i", len(body)) + body


def _varint(number: int) -> bytes:
    out, number = bytearray(), number << 1
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*out, number))


def test_a_batch_of_tiny_records_is_walked_in_slices_and_passes() -> None:
    count = 10 * RECORDS_PER_SLICE
    wire = Wire(Bench(max_message_size=1_000))
    large = produce({"t": stored(TINY * count, count)})
    wire.client_sends(large + produce({"u": batch(b"behind")}, correlation_id=2))
    assert wire.forwarded() == []
    assert 9 <= wire.take_turns() <= 11
    assert [topics_of(each) for each in wire.forwarded()] == [["t"], ["u"]]
    assert wire.shared.budget.used == 0
    assert wire.shared.gate("t", False, wire.now).state.allowed_messages == count


@pytest.mark.parametrize("batches_each", [1, 6])
def test_batches_of_less_than_a_slice_share_the_turns_of_their_connection(batches_each: int) -> None:
    count = RECORDS_PER_SLICE // 2 + 200
    wire = Wire(Bench(max_message_size=1_000))
    requests = [
        produce({f"t{number}": stored(TINY * count, count) for number in range(first, first + batches_each)})
        for first in range(0, 6, batches_each)
    ]
    wire.client_sends(b"".join(requests))
    assert wire.take_turns() >= 6 * count // RECORDS_PER_SLICE - 1
    names = [name for each in wire.forwarded() for name in topics_of(each)]
    assert names == [f"t{number}" for number in range(6)]
    assert wire.shared.budget.used == 0


def test_batches_that_cannot_exceed_the_limit_are_not_walked() -> None:
    records = TINY * RECORDS_PER_SLICE
    limit = len(records) - len(TINY)
    wire = Wire(Bench(max_message_size=limit))
    wire.client_sends(produce({"t": stored(records * 2, 2 * RECORDS_PER_SLICE)}))
    assert wire.take_turns() == 1
    assert len(wire.forwarded()) == 1


def test_the_walk_ends_at_the_first_message_over_the_limit() -> None:
    wire = Wire(Bench(max_message_size=1_000))
    records = record(1_001) + TINY * (10 * RECORDS_PER_SLICE)
    wire.client_sends(produce({"t": stored(records, 1 + 10 * RECORDS_PER_SLICE)}))
    assert wire.take_turns() == 0
    ((code, text),) = outcome(wire.answered()[0]).values()
    assert code == POLICY_VIOLATION
    assert text is not None
    assert "Current: 1001 bytes, Limit: 1000 bytes" in text


def test_a_message_over_the_limit_is_found_in_a_later_slice() -> None:
    wire = Wire(Bench(max_message_size=1_000))
    records = TINY * (2 * RECORDS_PER_SLICE) + record(1_001)
    wire.client_sends(produce({"t": stored(records, 2 * RECORDS_PER_SLICE + 1)}))
    assert wire.take_turns() >= 1
    assert [code for code, _ in outcome(wire.answered()[0]).values()] == [POLICY_VIOLATION]


def test_a_record_with_too_many_headers_counts_whole() -> None:
    wire = Wire(Bench(max_message_size=MAX_HEADERS))
    wire.client_sends(produce({"t": stored(record(0, MAX_HEADERS), 1)}))
    assert len(wire.forwarded()) == 1
    wire.client_sends(produce({"t": stored(record(0, MAX_HEADERS + 1), 1)}, correlation_id=2))
    assert wire.forwarded() == []


def test_records_with_many_headers_take_more_slices() -> None:
    wire = Wire(Bench(max_message_size=900))
    headers = MAX_HEADERS - 400
    wire.client_sends(produce({"t": stored(record(0, headers) * 100, 100)}))
    assert wire.take_turns() >= 100 * headers // RECORDS_PER_SLICE
    assert len(wire.forwarded()) == 1


def test_a_client_closed_midway_leaves_no_state() -> None:
    wire = Wire(Bench(max_message_size=1_000))
    count = 5 * RECORDS_PER_SLICE
    wire.client_sends(produce({"t": stored(TINY * count, count)}))
    assert wire.take_turn()
    assert wire.shared.budget.used > 0
    wire.session.closed(wire.now)
    assert wire.shared.budget.used == 0
    assert wire.take_turns() <= 1
    assert wire.forwarded() == []


def test_a_batch_without_room_for_its_slices_gets_a_retriable_code() -> None:
    bench = Bench(max_message_size=1_000)
    bench.budget.limit = 10_000
    wire = Wire(bench)
    count = 5 * RECORDS_PER_SLICE
    wire.client_sends(produce({"t": stored(TINY * count, count)}))
    ((code, _),) = outcome(wire.answered()[0]).values()
    assert (code, wire.closed, bench.budget.used) == (NOT_ENOUGH_REPLICAS, None, 0)


def test_new_topics_are_decided_in_slices() -> None:
    wire = Wire(Bench(max_publish_rate=1_000_000))
    names = [f"t{number}" for number in range(10 * TOPICS_PER_SLICE)]
    wire.client_sends(produce(dict.fromkeys(names, batch(b"x"))))
    states = wire.shared.gates.states
    seen = [len(states)]
    while wire.take_turn():
        seen.append(len(states))
    assert max(b - a for a, b in zip([0, *seen], seen, strict=False)) <= TOPICS_PER_SLICE
    assert len(seen) == 11
    assert topics_of(wire.forwarded()[0]) == names


def test_many_small_requests_without_responses_take_several_turns() -> None:
    wire = Wire(Bench(max_publish_rate=1_000_000))
    requests = [
        produce({"ab"[number % 2]: batch(b"x")}, correlation_id=number, acks=0) for number in range(4)
    ]
    wire.client_sends(b"".join(requests * 200))
    seen = [len(wire.forwarded())]
    wire.client_sends(produce({"t": batch(b"last")}, correlation_id=5))
    while wire.take_turn():
        seen.append(len(wire.forwarded()))
    assert seen == [25] * 32 + [1]
    assert wire.shared.budget.used == 0


def test_many_requests_answered_by_the_gateway_take_several_turns() -> None:
    wire = Wire(Bench(), max_requests_in_flight=10)
    unknown = bytes.fromhex("0000000a 0012 0063 00000001 ffff")
    """ApiVersions in a version that does not exist."""
    wire.client_sends(unknown * 10_000)
    seen = [len(wire.answered())]
    while wire.take_turn():
        seen.append(len(wire.answered()))
    assert sum(seen) == 10_000
    assert max(seen) <= 25
    assert wire.closed is None
    assert (wire.shared.budget.used, wire.session.held_bytes) == (0, 0)


def test_partitions_with_more_batches_than_brokers_accept_close_the_connection() -> None:
    wire = Wire(Bench())
    wire.client_sends(produce({"t": batch(b"x") * MAX_BATCHES}))
    before = wire.closed
    wire.client_sends(produce({"t": batch(b"x") * (MAX_BATCHES + 1)}))
    assert before is None
    assert wire.closed is not None
    assert "more batches in one partition" in wire.closed.detail


def test_a_member_of_many_topics_attaches_in_slices() -> None:
    wire = Wire(Bench(max_consumers_per_topic=5))
    names = [f"t{number}" for number in range(300)]
    wire.client_sends(join("g", *names, member="m"))
    wire.session.answered(ListGroups(), None, wire.now)
    wire.shared.learned.listing.learned({}, wire.now, wire.now)
    counts = []
    while wire.take_turn() or wire.asked:
        if not any(isinstance(each, NextTurn) for each in wire.asked):
            wire.commands.clear()
            wire.carry_out(wire.session.answered(ListGroups(), None, wire.now))
        counts.append(sum(state.consumer_count for state in wire.shared.gates.states.values()))
    assert counts[-1] == 300
    assert max(b - a for a, b in pairwise(counts)) <= 100
    assert len(wire.forwarded()) == 1


def test_a_long_commit_is_read_in_slices_and_passes_in_its_turn() -> None:
    wire = Wire(Bench())
    long, short = commit("g", {"t": 3_500}), commit("g", {"t": 1}, correlation_id=2)
    wire.client_sends(long + short)
    assert wire.forwarded() == []
    assert wire.take_turns() == 3
    assert wire.forwarded() == [long[4:], short[4:]]
    assert wire.shared.budget.used == 0


def test_a_long_commit_is_refused_in_slices_and_answered_in_its_turn() -> None:
    wire = Wire(Bench(max_subscriptions_per_topic=1))
    wire.shared.learned.listing.learned({"t": {"old"}}, wire.now, wire.now)
    wire.client_sends(commit("g", {"t": 3_500}) + commit("g", {"t": 1}, correlation_id=2))
    assert wire.take_turns() == 9, "it is read, read again, and answered in 4 slices each"
    assert wire.forwarded() == []
    long, short = wire.answered()
    assert len(long) == 4 + 4 + 4 + (2 + 1 + 4) + 3_500 * (4 + 2)
    assert {long[at : at + 2] for at in range(23, len(long), 6)} == {
        struct.pack(">h", GROUP_MAX_SIZE_REACHED)
    }
    assert (long[3], short[3]) == (1, 2)
    assert wire.shared.budget.used == 0


def test_a_fetch_response_is_read_only_as_far_as_the_rate_lets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    wire = Wire(Bench(max_dispatch_rate=1))
    read: list[int] = []

    def counting(*arguments: int) -> Iterator[Batch]:
        for each in iter_batches(*arguments):  # type: ignore[arg-type]
            read.append(each.offset)
            yield each

    monkeypatch.setattr(fetching, "iter_batches", counting)
    wire.client_sends(fetch("t"))
    wire.broker_sends(fetched({"t": batch(b"x") * 1_000}))
    assert len(read) == 2


@pytest.mark.parametrize("groups", [30, 1_000])
@pytest.mark.parametrize("request_of", [join, lambda group, *topics: commit(group, dict.fromkeys(topics, 1))])
def test_listed_groups_are_learned_in_slices(request_of: Callable[..., bytes], groups: int) -> None:
    wire = Wire(Bench(max_subscriptions_per_topic=5_000))
    topics = [f"t{number}" for number in range(50)]
    names = {f"g{number}" for number in range(groups)}
    wire.shared.learned.listing.learned(dict.fromkeys(topics, names), wire.now, wire.now)

    def known() -> int:
        return sum(len(state.subscriptions) for state in wire.shared.gates.states.values())

    seen = [0]
    wire.client_sends(request_of("new", *topics))
    seen.append(known())
    while wire.take_turn():
        seen.append(known())
    assert len(wire.forwarded()) == 1
    assert seen[-1] == len(topics) * (groups + 1)
    assert max(after - before for before, after in pairwise(seen)) <= 100 + groups + 5
