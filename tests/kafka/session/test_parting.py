"""A closed connection with thousands of topics is detached from all of them, in slices."""

from collections.abc import Iterator
from itertools import pairwise

from benchmarks.harness import kafka_long_bytes as raw
from tests.kafka.session.messages import batch, fetch, produce
from tests.kafka.session.wire import Bench, Wire

from sluicegate_kafka.codec.slices import at_once

TOPICS = [f"t{number}" for number in range(1_000)]
MOST = 100


def attached(wire: Wire) -> int:
    """How many producers and consumers all topics have together."""
    states = wire.shared.gates.states.values()
    return sum(state.consumer_count + len(state.producers) for state in states)


def most_in_a_slice(wire: Wire, slices: Iterator[None], left: int = 0) -> int:
    """Have a session detach itself from its topics; from how many in one slice at most."""
    seen = [attached(wire)]
    assert seen[0] == len(TOPICS)
    for _ in slices:
        seen.append(attached(wire))
    seen.append(attached(wire))
    assert seen[-1] == left
    return max(before - after for before, after in pairwise(seen))


def most_when_it_ends(wire: Wire) -> int:
    """The same, where it ends."""
    most = most_in_a_slice(wire, wire.session.parting(wire.now))
    assert (wire.shared.budget.used, len(wire.shared.releases)) == (0, 0)
    return most


def member(wire: Wire) -> None:
    """A group member of all topics joins."""
    wire.shared.learned.listing.learned({}, wire.now, wire.now)
    wire.client_sends(raw.join("", TOPICS))
    wire.take_turns()


def test_a_member_leaves_its_topics_in_slices() -> None:
    wire = Wire(Bench(max_consumers_per_topic=5))
    member(wire)
    assert most_when_it_ends(wire) == MOST


def producer() -> Wire:
    """A client that publishes to all topics."""
    wire = Wire(Bench(max_producers_per_topic=5))
    for start in range(0, len(TOPICS), 200):
        wire.client_sends(produce(dict.fromkeys(TOPICS[start : start + 200], batch(b"x"))))
        wire.take_turns()
    return wire


def test_producers_leave_in_slices() -> None:
    assert most_when_it_ends(producer()) == MOST


def test_idle_producers_are_released_in_slices() -> None:
    wire = producer()
    release, _ = wire.shared.releases[wire.session.connection]
    idle_ns = wire.now + wire.shared.limits.producer_idle_ns + 1
    assert 0 < most_in_a_slice(wire, release(idle_ns)) <= MOST


def test_idle_consumers_are_released_in_slices() -> None:
    wire = Wire(Bench(max_consumers_per_topic=5))
    for number, topics in enumerate((TOPICS, TOPICS[:1]), 1):
        wire.client_sends(fetch(*topics, correlation_id=number))
        wire.take_turns()
    _, release = wire.shared.releases[wire.session.connection]
    at_once(release(wire.now))
    idle_ns = wire.now + wire.shared.limits.producer_idle_ns + 1
    assert 0 < most_in_a_slice(wire, release(idle_ns), left=1) <= MOST


def test_a_consumer_that_fetches_a_topic_again_is_idle_anew_from_then_on() -> None:
    wire = Wire(Bench(max_consumers_per_topic=5))
    _, release = wire.shared.releases[wire.session.connection]
    idle_ns = wire.shared.limits.producer_idle_ns
    number = 0

    def fetches(*topics: str) -> int:
        nonlocal number
        number += 1
        wire.client_sends(fetch(*topics, correlation_id=number))
        at_once(release(wire.now))
        return attached(wire)

    assert fetches("t", "u") == 2
    assert fetches("t") == 2
    wire.now += idle_ns
    assert fetches("t", "u") == 2
    assert fetches("t") == 2
    wire.now += idle_ns
    assert fetches("t") == 2
    wire.now += 1
    assert fetches("t") == 1


def test_nothing_is_kept_of_an_idle_producer_whose_broker_has_never_answered() -> None:
    wire = Wire(Bench(max_producers_per_topic=5))
    wire.client_sends(produce({"t": batch(b"x")}, acks=0))
    release, _ = wire.shared.releases[wire.session.connection]
    assert wire.session.producing.unheard

    at_once(release(wire.now + wire.shared.limits.producer_idle_ns + 1))

    assert attached(wire) == 0
    assert not wire.session.producing.unheard


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
