"""What one client can make the gateway keep is bounded, whatever it sends."""

import datetime
import struct
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from tests.kafka.codec.entities import request_schema, response_schema
from tests.kafka.session.messages import (
    batch,
    fetch,
    fetched,
    join,
    joined,
    outcome,
    produce,
    produced,
    publish,
)
from tests.kafka.session.wire import Bench, Wire, request, response

from sluicegate_kafka.session.fetching import fetched_topics
from sluicegate_kafka.session.shared import client_gaps

NOT_ENOUGH_REPLICAS = 19
LEAVE = 13
ZERO = datetime.timedelta(0)


def leave(group: str, member: str) -> bytes:
    """A LeaveGroup request."""
    schema: Any = request_schema(LEAVE, 2)
    return request(schema(group_id=group, member_id=member))


def held(bench: Bench, size: int) -> Wire:
    """A client with a request of about so many bytes that is held by a rate."""
    wire = Wire(bench)
    publish(wire, {"t": batch(b"x")})
    wire.client_sends(produce({"t": batch(b"x" * size)}, correlation_id=2))
    return wire


def test_a_held_request_counts_in_the_budget_until_it_is_forwarded() -> None:
    bench = Bench(max_publish_rate=1)
    wire = held(bench, 100_000)
    assert bench.budget.used >= 100_000
    assert wire.session.held_bytes >= 100_000
    wire.wait(1.1)
    assert len(wire.forwarded()) == 1
    assert (bench.budget.used, wire.session.held_bytes) == (0, 0)


def test_places_on_topics_count_until_they_are_left() -> None:
    wire = Wire(Bench(max_consumers_per_topic=5))
    assert wire.session.places_bytes == 0
    wire.client_sends(fetch("a", "b"))
    wire.forwarded()
    wire.broker_sends(fetched({"a": b"", "b": b""}))
    wire.answered()
    fetching = wire.session.places_bytes
    assert fetching >= 2 * 5_000
    publish(wire, {"c": batch(b"x")}, correlation_id=2)
    publishing = wire.session.places_bytes
    assert publishing >= fetching + 5_000
    wire.client_sends(join("g", *map(str, range(100)), member="m", correlation_id=3))
    wire.take_turns()
    assert wire.session.places_bytes >= publishing + 100 * 5_000
    wire.session.closed(wire.now)
    assert wire.session.places_bytes == 0


def test_requests_beyond_the_budget_are_refused_with_a_retriable_code() -> None:
    bench = Bench(max_publish_rate=1)
    bench.budget.limit = 50_000
    wire = held(bench, 100_000)
    (answer,) = wire.answered()
    code, text = outcome(answer)["t", 0]
    assert code == NOT_ENOUGH_REPLICAS
    assert "too many bytes are held" in (text or "")
    assert (bench.budget.used, wire.upstream, wire.closed) == (0, b"", None)
    # Its place in the line went with it: what is small enough is held as ever.
    wire.client_sends(produce({"t": batch(b"x")}, correlation_id=3))
    wire.wait(1.1)
    assert len(wire.forwarded()) == 1


def test_a_client_is_closed_if_its_question_cannot_be_held() -> None:
    bench = Bench(max_subscriptions_per_topic=1)
    bench.budget.limit = 10
    wire = Wire(bench)
    wire.client_sends(join("g", "t"))
    assert wire.closed is not None
    assert wire.closed.counter == "buffer_budget_used_up"
    wire.session.closed(wire.now)
    assert bench.budget.used == 0


def test_a_held_request_of_a_closed_client_returns_its_bytes() -> None:
    bench = Bench(max_publish_rate=1)
    wire = held(bench, 1000)
    wire.session.closed(wire.now)
    assert bench.budget.used == 0


def test_countless_producer_ids_do_not_accumulate() -> None:
    wire = Wire(Bench())
    record = batch(b"x", producer_id=1, sequence=0)
    for producer_id in range(10_500):
        wire.client_sends(produce({"t": record[:43] + struct.pack(">q", producer_id) + record[51:]}))
        wire.broker_sends(produced("t"))
    assert len(wire.shared.gate("t", False, wire.now).state.producers) <= 10_000
    wire.session.closed(wire.now)
    assert len(wire.shared.gate("t", False, wire.now).state.producers) == 0


def test_gaps_of_all_clients_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_gaps, "_MAX_GAPS", 2)
    first = Wire(Bench(max_message_size=10))
    wires = [first, *(Wire(Bench(), first.shared, peer=f"10.0.0.{host}:5000") for host in (2, 3, 4))]
    too_large = batch(b"x" * 11, producer_id=5, sequence=1)
    for wire in (*wires[:3], first, wires[3]):
        wire.client_sends(produce({"t": too_large}))
    kept = [wire.session.connection.identity for wire in (wires[2], first, wires[3])]
    assert list(first.shared.client_gaps.by_client) == kept, (
        "the client whose last refusal is oldest is forgotten first"
    )


def test_fetched_topics_that_do_not_exist_are_forgotten() -> None:
    wire = Wire(Bench(max_dispatch_rate=10))
    for number in range(50):
        wire.client_sends(fetch(f"none-{number}"))
        wire.broker_sends(fetched({f"none-{number}": b""}))
    assert not wire.session.fetching._operations


def test_an_invalid_topic_name_closes_the_connection() -> None:
    wire = Wire(Bench())
    wire.client_sends(produce({"x" * 250: batch(b"x")}))
    assert wire.closed is not None
    assert "250" in wire.closed.detail
    assert not wire.shared.gates.states


def test_former_groups_are_forgotten_where_no_limit_counts_them() -> None:
    wire = Wire(Bench())
    state = wire.shared.gate("t", False, wire.now).state
    left: Any = response_schema(LEAVE, 2)
    for number in range(600):
        group = f"console-{number}"
        wire.client_sends(join(group, "t", member=group))
        wire.broker_sends(joined(group))
        wire.client_sends(leave(group, group))
        wire.broker_sends(response(left(throttle_time=ZERO, error_code=ErrorCode.none)))
    assert len(state.subscriptions) <= 257


def test_bounds_on_requests_do_not_apply_to_responses() -> None:
    wire = Wire(Bench(max_dispatch_rate=10), max_frame_bytes=1000)
    wire.client_sends(fetch("t"))
    answer = fetched({"t": batch(b"x" * 5000)})
    wire.broker_sends(answer[:2000])
    wire.broker_sends(answer[2000:])
    assert wire.closed is None
    assert wire.answered() == [answer[4:]]


@pytest.mark.parametrize("api", ["produce", "fetch", "join"])
def test_the_number_of_topics_in_a_request_is_bounded(api: str) -> None:
    """Each topic that is new to the gateway costs it some 70 us."""
    wire = Wire(Bench(max_dispatch_rate=10, max_consumers_per_topic=1))
    names = [f"{number:x}" for number in range(10_001)]
    frames = {
        "produce": produce(dict.fromkeys(names, b"")),
        "fetch": fetch(*names),
        "join": join("g", *names),
    }
    wire.client_sends(frames[api])
    wire.take_turns()
    assert wire.closed is not None
    assert "10001 topics" in wire.closed.detail
    assert not wire.shared.gates.states


def test_topics_attached_by_one_connection_are_bounded_over_all_its_groups() -> None:
    wire = Wire(Bench(), max_requests_in_flight=1_000)
    names = [f"{number:x}" for number in range(100)]
    for number in range(101):
        wire.client_sends(join(f"g{number}", *names, member="m"))
        wire.take_turns()
    before = wire.closed
    wire.client_sends(join("one-more", *names, member="m"))
    assert before is None
    assert wire.closed is not None
    assert "topics" in wire.closed.detail


def test_topics_that_one_connection_fetches_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of them may be forgotten: it would go on being fetched uncounted."""
    monkeypatch.setattr(fetched_topics, "_MAX_TOPICS", 2)
    wire = Wire(Bench(max_consumers_per_topic=1))
    wire.client_sends(fetch("t"))
    wire.client_sends(fetch("a"))
    assert len(wire.forwarded()) == 2
    wire.client_sends(fetch("b"))
    assert wire.forwarded() == []
    assert wire.closed is not None
    assert "topics fetched on one connection" in wire.closed.detail
