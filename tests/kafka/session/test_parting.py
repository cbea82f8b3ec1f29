"""A closed connection with thousands of topics is detached from all of them, in slices."""

from itertools import pairwise

from benchmarks.harness import kafka_long_bytes as raw
from tests.kafka.session.messages import batch, fetch, produce
from tests.kafka.session.wire import Bench, Wire

TOPICS = [f"t{number}" for number in range(1_000)]
MOST = 100


def most_in_a_slice(wire: Wire) -> int:
    """End a session in slices; how many are detached in one of them at most."""

    def attached() -> int:
        states = wire.shared.gates.states.values()
        return sum(state.consumer_count + len(state.producers) for state in states)

    seen = [attached()]
    assert seen[0] == len(TOPICS)
    for _ in wire.session.parting(wire.now):
        seen.append(attached())
    seen.append(attached())
    assert seen[-1] == 0
    assert (wire.shared.budget.used, wire.shared.counters()["sessions"]) == (0, 0)
    return max(before - after for before, after in pairwise(seen))


def member(wire: Wire) -> None:
    """A group member of all topics joins."""
    wire.shared.listing.learned({}, wire.now, wire.now)
    wire.client_sends(raw.join("", TOPICS))
    wire.take_turns()


def test_a_member_leaves_its_topics_in_slices() -> None:
    wire = Wire(Bench(max_consumers_per_topic=5))
    member(wire)
    assert most_in_a_slice(wire) == MOST


def test_producers_leave_in_slices() -> None:
    wire = Wire(Bench(max_producers_per_topic=5))
    for start in range(0, len(TOPICS), 200):
        wire.client_sends(produce(dict.fromkeys(TOPICS[start : start + 200], batch(b"x"))))
        wire.take_turns()
    assert most_in_a_slice(wire) == MOST


def test_a_member_that_joins_again_by_another_connection_meanwhile_is_counted_once() -> None:
    bench = Bench(max_consumers_per_topic=5)
    wire = Wire(bench)
    member(wire)
    slices = wire.session.parting(wire.now)
    next(slices)
    again = Wire(bench, wire.shared, peer="10.0.0.1:5001")
    member(again)
    for _ in slices:
        pass
    counts = [state.consumer_count for state in wire.shared.gates.states.values()]
    assert counts == [1] * len(TOPICS)
    again.client_sends(fetch(TOPICS[0]))
    again.session.closed(wire.now)
    assert sum(state.consumer_count for state in wire.shared.gates.states.values()) == 0
