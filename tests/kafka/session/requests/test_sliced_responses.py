"""Long responses, and requests of members with many topics, are processed in slices and stay in order."""

from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest
from benchmarks.harness import kafka_long_bytes as raw
from tests.kafka.session.messages import batch, fetch, fetched, produce, records_of
from tests.kafka.session.wire import Bench, Wire

from sluicegate.broker import NextTurn
from sluicegate_kafka.codec.records import Batch, iter_batches
from sluicegate_kafka.codec.slices import ENTRIES_PER_SLICE
from sluicegate_kafka.session.fetching import fetching
from sluicegate_kafka.session.requests.connection import TOPICS_PER_SLICE

TOPICS = [f"t{number}" for number in range(2_000)]
MANY = 1_000
"""Batches that take several slices."""


def consuming(*topics: str) -> Wire:
    """A connection whose consumers count; its broker has no groups yet."""
    wire = Wire(Bench(max_consumers_per_topic=5))
    wire.shared.learned.listing.learned({}, wire.now, wire.now)
    for topic in topics:
        wire.shared.gate(topic, False, wire.now)
    return wire


def member() -> Wire:
    """A connection with a member of all topics, whose join the broker has not answered."""
    wire = consuming(*TOPICS)
    wire.client_sends(raw.join("", TOPICS))
    wire.take_turns()
    assert len(wire.forwarded()) == 1
    return wire


def most_in_a_turn(wire: Wire, count: Callable[[], int]) -> int:
    """Take all turns; by how much the count grows in one of them at most."""
    seen = [count()]
    while wire.take_turn():
        seen.append(count())
    return max(after - before for before, after in pairwise(seen))


def consumers(wire: Wire) -> int:
    """Consumers of all topics."""
    return sum(state.consumer_count for state in wire.shared.gates.states.values())


def reading(wire: Wire) -> Wire:
    """A fetch response is read, of which the first slice is done."""
    wire.client_sends(fetch("t"))
    wire.forwarded()
    wire.broker_sends(fetched({"t": batch(b"x") * MANY}))
    assert any(isinstance(each, NextTurn) for each in wire.asked)
    assert wire.shared.budget.used > 0
    return wire


def test_batches_are_walked_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = 0

    def counting(*arguments: int) -> Iterator[Batch]:
        nonlocal looked
        for each in iter_batches(*arguments):  # type: ignore[arg-type]
            looked += 1
            yield each

    monkeypatch.setattr(fetching, "iter_batches", counting)
    wire = reading(Wire(Bench(max_dispatch_rate=1_000_000)))
    assert 0 < looked < ENTRIES_PER_SLICE
    assert most_in_a_turn(wire, lambda: looked) < ENTRIES_PER_SLICE
    assert looked == MANY
    assert records_of(wire.answered()[0]) == {"t": batch(b"x") * MANY}
    assert wire.shared.budget.used == 0


def test_later_responses_wait_behind_a_sliced_one() -> None:
    wire = Wire(Bench(max_dispatch_rate=1_000_000))
    wire.client_sends(fetch("t"))
    wire.client_sends(fetch("u", correlation_id=2) + fetch("v", correlation_id=3))
    second = fetched({"u": batch(b"u")}, correlation_id=2)
    wire.broker_sends(fetched({"t": batch(b"x") * MANY}) + second[:10])
    wire.broker_sends(second[10:] + fetched({"v": batch(b"v")}, correlation_id=3))
    assert wire.answered() == []
    wire.take_turns()
    assert [list(records_of(each)) for each in wire.answered()] == [["t"], ["u"], ["v"]]
    assert wire.shared.budget.used == 0


def test_the_gates_own_answers_keep_their_places() -> None:
    wire = reading(Wire(Bench(max_dispatch_rate=1_000_000, max_message_size=10)))
    wire.client_sends(produce({"t": batch(b"x" * 11)}, correlation_id=2))
    assert wire.answered() == []
    wire.take_turns()
    assert [int.from_bytes(each[:4], "big") for each in wire.answered()] == [1, 2]


def test_a_request_resumes_only_on_its_own_turns() -> None:
    wire = reading(Wire(Bench(max_dispatch_rate=1_000_000)))
    wire.client_sends(raw.commit(3_500))
    asked = [each for each in wire.asked if isinstance(each, NextTurn)]
    assert len(asked) == 2
    wire.take_turns()
    assert len(wire.forwarded()) == 1
    assert len(wire.answered()) == 1


def test_a_client_closed_between_slices_leaves_no_state() -> None:
    wire = reading(Wire(Bench(max_dispatch_rate=1_000_000)))
    wire.session.closed(wire.now)
    assert wire.shared.budget.used == 0
    assert wire.take_turns() <= 1
    assert wire.answered() == []


def test_a_malformed_response_closes_the_connection() -> None:
    wire = Wire(Bench(max_dispatch_rate=1_000_000))
    wire.client_sends(raw.fetch({"t": range(1)}))
    parts = dict.fromkeys(range(2 * ENTRIES_PER_SLICE), b"")
    broken = raw.fetched({"t": parts})[4:-1]
    wire.broker_sends(len(broken).to_bytes(4, "big") + broken)
    before = wire.closed
    wire.take_turns()
    assert before is None
    assert wire.closed is not None
    assert wire.closed.counter == "malformed_response"
    wire.session.closed(wire.now)
    assert wire.shared.budget.used == 0


def test_new_topics_get_their_gates_in_slices() -> None:
    wire = Wire(Bench(max_dispatch_rate=1_000_000))
    names = TOPICS[:100]
    wire.client_sends(raw.fetch(dict.fromkeys(names, range(1))))
    wire.take_turns()
    wire.broker_sends(raw.fetched({each: {0: b""} for each in names}))
    assert most_in_a_turn(wire, lambda: len(wire.shared.gates.states)) <= TOPICS_PER_SLICE
    assert len(wire.shared.gates.states) == len(names)


def test_a_fetch_of_many_topics_attaches_in_slices_and_keeps_its_order() -> None:
    wire = consuming()
    long, short = raw.fetch(dict.fromkeys(TOPICS[:300], range(1))), fetch("u", correlation_id=2)
    wire.client_sends(long + short)
    assert wire.forwarded() == []
    assert most_in_a_turn(wire, lambda: consumers(wire)) <= TOPICS_PER_SLICE + 1
    assert wire.forwarded() == [long[4:], short[4:]]
    assert consumers(wire) == 301


def test_a_heartbeat_with_many_topics_attaches_in_slices() -> None:
    wire = consuming()
    wire.client_sends(raw.heartbeat("m", TOPICS))
    assert most_in_a_turn(wire, lambda: len(wire.shared.gates.states) + consumers(wire)) <= 100
    assert consumers(wire) == len(TOPICS)
    assert len(wire.forwarded()) == 1


def test_the_end_of_a_join_is_done_in_slices() -> None:
    wire = consuming(*TOPICS)
    wire.client_sends(raw.join("m", TOPICS))
    assert most_in_a_turn(wire, lambda: wire.shared.audiences.changes) < ENTRIES_PER_SLICE
    assert wire.shared.audiences.changes == len(TOPICS)


def test_a_member_gets_its_name_and_assignment_in_slices() -> None:
    wire = member()
    wire.broker_sends(raw.joined("m-1"))
    assert wire.answered() == []
    assert wire.take_turns() > 1
    assert len(wire.answered()) == 1
    wire.client_sends(raw.sync("m-1"))
    before = wire.shared.audiences.changes
    wire.broker_sends(raw.synced(TOPICS))
    assert wire.answered() == []
    assert most_in_a_turn(wire, lambda: wire.shared.audiences.changes) < ENTRIES_PER_SLICE
    assert wire.shared.audiences.changes == before + len(TOPICS)
    assert len(wire.answered()) == 1


@pytest.mark.parametrize("turns", [0, 3])
def test_a_member_closed_while_it_gets_its_name_is_not_counted(turns: int) -> None:
    wire = member()
    wire.broker_sends(raw.joined("m-1"))
    for _ in range(turns):
        assert wire.take_turn()
    assert consumers(wire) == len(TOPICS)
    wire.session.closed(wire.now)
    assert consumers(wire) == 0
    assert not wire.shared.audiences._audiences
    assert wire.shared.budget.used == 0
