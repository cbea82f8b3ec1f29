"""Producers without ids that share a client id count as often as they connect to any one node."""

import datetime

from hypothesis import given
from hypothesis import strategies as st
from kio.static.primitive import i16, i32
from tests.kafka.session.messages import batch, outcome, produce, produce_request, produced, topics_of
from tests.kafka.session.wire import SECOND, Bench, Wire, request

POLICY_VIOLATION = 44


def wire(first: Wire, number: int, node: str = "node-1") -> Wire:
    """One more connection from the same host."""
    made = Wire(Bench(), first.shared, peer=f"10.0.0.1:{5_000 + number}", node=node)
    made.now = first.now
    return made


def publishes(wire: Wire, topic: str = "t", client_id: str = "rdkafka", **ids: int) -> int:
    """Publish one record; the error code that the client sees."""
    wire.client_sends(produce({topic: batch(b"x", **ids)}, client_id=client_id))
    for frame in wire.forwarded():
        wire.broker_sends(produced(*topics_of(frame)))
    (answer,) = wire.answered()
    return outcome(answer)[topic, 0][0]


def producers(wire: Wire, topic: str = "t") -> int:
    """Producers of a topic that are counted."""
    return len(wire.shared.gate(topic, False, wire.now).state.producers)


def test_each_connection_with_one_client_id_to_one_node_is_a_producer() -> None:
    first = Wire(Bench(max_producers_per_topic=2))
    wires = [first, *(wire(first, number) for number in range(5))]
    assert [publishes(each) for each in wires] == [0, 0, *[POLICY_VIOLATION] * 4]
    assert [publishes(each) for each in wires] == [0, 0, *[POLICY_VIOLATION] * 4]
    wires[0].session.closed(first.now)
    assert publishes(wires[5]) == 0
    assert publishes(wires[2]) == POLICY_VIOLATION


def test_a_producer_connected_to_three_leaders_counts_once() -> None:
    first = Wire(Bench(max_producers_per_topic=1))
    others = [wire(first, number, f"node-{number}") for number in (2, 3)]
    assert [publishes(each) for each in (first, *others)] == [0, 0, 0]
    assert producers(first) == 1


def test_a_node_that_one_producer_leaves_does_not_make_another_count_twice() -> None:
    bench = Bench()
    a1 = Wire(bench, peer="10.0.0.1:1", node="node-1")
    b1, b2, a2 = wire(a1, 2, "node-1"), wire(a1, 3, "node-2"), wire(a1, 4, "node-2")
    assert [publishes(each) for each in (a1, b1, b2, a2)] == [0] * 4
    assert producers(a1) == 2
    # b was second at the first node and first at the second one.
    a1.session.closed(a1.now)
    a2.session.closed(a1.now)
    assert producers(b1) == 1
    b1.session.closed(b1.now)
    b2.session.closed(b1.now)
    assert producers(b1) == 0


def test_equal_clients_of_different_topics_do_not_count_for_each_other() -> None:
    first = Wire(Bench(max_producers_per_topic=1))
    second = wire(first, 2)
    assert publishes(first, "t") == 0
    assert publishes(second, "u") == 0
    assert (producers(first, "t"), producers(first, "u")) == (1, 1)


def test_a_client_id_cannot_imitate_a_numbered_identity() -> None:
    first = Wire(Bench())
    second, third = wire(first, 2), wire(first, 3)
    assert publishes(first, client_id="x") == 0
    assert publishes(second, client_id="x") == 0
    assert publishes(third, client_id="#2 x") == 0
    assert producers(first) == 3


def test_a_request_of_two_producer_ids_is_two_producers() -> None:
    for ids, limit, code in (((7, 8), 1, POLICY_VIOLATION), ((7, 8), 2, 0), ((7, -1), 1, POLICY_VIOLATION)):
        one = Wire(Bench(max_producers_per_topic=limit))
        one.client_sends(two_partitions(*ids))
        for _ in one.forwarded():
            one.broker_sends(produced("t"))
        (answer,) = one.answered()
        assert outcome(answer)["t", 0][0] == code
        assert producers(one) == (2 if code == 0 else 0)


def two_partitions(*producer_ids: int) -> bytes:
    """A Produce request with a batch of another producer in each partition."""
    entity = produce_request.ProduceRequest(
        acks=i16(-1),
        timeout=datetime.timedelta(seconds=30),
        topic_data=(
            produce_request.TopicProduceData(
                name="t",
                partition_data=tuple(
                    produce_request.PartitionProduceData(
                        index=i32(index),
                        records=batch(b"x", producer_id=producer_id, sequence=0 if producer_id >= 0 else -1),
                    )
                    for index, producer_id in enumerate(producer_ids)
                ),
            ),
        ),
    )
    return request(entity)


# -- connections that broke without a word -------------------------------------------------------------


def test_a_silent_connection_is_replaced_by_its_clients_new_one() -> None:
    old = Wire(Bench(max_producers_per_topic=1))
    assert publishes(old) == 0
    new = wire(old, 2)
    new.now = old.now + 19 * SECOND
    assert publishes(new) == POLICY_VIOLATION, "it may be another one"
    new.now = old.now + 20 * SECOND
    assert publishes(new) == 0
    assert producers(new) == 1
    # The old one was no half-open connection after all: it is a newcomer now.
    old.now = new.now
    assert publishes(old) == POLICY_VIOLATION
    old.session.closed(old.now)
    assert publishes(new) == 0
    assert producers(new) == 1


def test_active_equal_clients_are_never_replaced() -> None:
    first = Wire(Bench(max_producers_per_topic=2))
    second, third = wire(first, 2), wire(first, 3)
    for seconds in range(0, 60, 15):
        first.now = second.now = third.now = first.now + 15 * SECOND
        assert [publishes(each) for each in (first, second)] == [0, 0], seconds
        assert publishes(third) == POLICY_VIOLATION


def test_a_client_waiting_for_a_response_is_not_silent() -> None:
    old = Wire(Bench(max_producers_per_topic=1))
    old.client_sends(produce({"t": batch(b"x")}, client_id="rdkafka"))
    new = wire(old, 2)
    new.now = old.now + 60 * SECOND
    assert publishes(new) == POLICY_VIOLATION


def test_a_silent_client_is_replaced_by_equal_ones_only() -> None:
    old = Wire(Bench(max_producers_per_topic=1))
    assert publishes(old) == 0
    new = wire(old, 2)
    new.now = old.now + 60 * SECOND
    assert publishes(new, client_id="another") == POLICY_VIOLATION
    elsewhere = Wire(Bench(), old.shared, peer="10.0.0.2:1")
    elsewhere.now = new.now
    assert publishes(elsewhere) == POLICY_VIOLATION


# -- any order -----------------------------------------------------------------------------------------

NODES = 3


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, NODES - 1), st.booleans()), max_size=60))
def test_clients_are_the_largest_number_of_connections_to_one_node(
    steps: list[tuple[int, int, bool]],
) -> None:
    first = Wire(Bench())
    open_ones: dict[tuple[int, int], Wire] = {}
    for number, (client, node, opens) in enumerate(steps):
        key = (client, node)
        if opens and key not in open_ones:
            open_ones[key] = wire(first, number, f"node-{node}")
            assert publishes(open_ones[key]) == 0
        elif not opens and key in open_ones:
            gone = open_ones.pop(key)
            gone.session.closed(gone.now)
        per_node = [sum(at == each for _, at in open_ones) for each in range(NODES)]
        assert producers(first) == max(per_node)
