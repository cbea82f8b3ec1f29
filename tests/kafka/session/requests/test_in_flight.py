"""Requests whose responses are pending: bounded, counted, and none lost or reordered."""

import gc
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from tests.kafka.codec.entities import request_schema, response_schema
from tests.kafka.session.messages import batch, fetch, fetched, produce, produced, publish
from tests.kafka.session.wire import Bench, Wire, request, response

from sluicegate.broker import PauseReading, ResumeReading

API_VERSIONS, LIST_GROUPS = 18, 16
MOST = 20


def list_groups(correlation_id: int) -> bytes:
    """A request that no policy asks about."""
    schema: Any = request_schema(LIST_GROUPS, 0)
    return request(schema(), correlation_id)


def listed(correlation_id: int) -> bytes:
    schema: Any = response_schema(LIST_GROUPS, 0)
    return response(schema(error_code=ErrorCode.none, groups=()), correlation_id)


def api_versions(correlation_id: int) -> bytes:
    """The smallest request whose response is read whole."""
    schema: Any = request_schema(API_VERSIONS, 0)
    return request(schema(), correlation_id, "")


def versions(correlation_id: int) -> bytes:
    schema: Any = response_schema(API_VERSIONS, 0)
    return response(schema(error_code=ErrorCode.none, api_keys=()), correlation_id)


def ids(frames: list[bytes], at: int) -> list[int]:
    """Correlation ids of requests (at 4) or responses (at 0)."""
    return [int.from_bytes(frame[at : at + 4], "big") for frame in frames]


def pauses(wire: Wire) -> list[type]:
    """What was said about reading, in order."""
    return [type(command) for command in wire.commands if isinstance(command, PauseReading | ResumeReading)]


def test_requests_wait_while_too_many_responses_are_pending() -> None:
    wire = Wire(Bench(), max_requests_in_flight=MOST)
    wire.client_sends(b"".join(map(list_groups, range(100))))
    assert ids(wire.forwarded(), 4) == list(range(MOST))
    assert pauses(wire) == [PauseReading]
    assert wire.shared.budget.used == wire.session.held_bytes > 0
    for number in range(MOST // 2 - 1):
        wire.broker_sends(listed(number))
    assert wire.forwarded() == []
    wire.broker_sends(listed(MOST // 2 - 1))
    assert ids(wire.forwarded(), 4) == list(range(MOST, MOST + MOST // 2))
    for number in range(MOST // 2, 100):
        wire.broker_sends(listed(number))
    assert ids(wire.forwarded(), 4) == list(range(MOST + MOST // 2, 100))
    assert ids(wire.answered(), 0) == list(range(100))
    assert pauses(wire) == [PauseReading, ResumeReading]
    assert (wire.shared.budget.used, wire.session.held_bytes) == (0, 0)
    assert wire.shared.counters()["requests_in_flight_full"] > 0


def test_a_client_that_pipelines_and_does_not_read_keeps_little() -> None:
    wire = Wire(Bench())
    flood = b"".join(map(api_versions, range(17_000)))
    wire.client_sends(flood)
    wire.take_turns()
    assert len(wire.forwarded()) == len(wire.session.connection.outstanding) == 100
    assert wire.session.held_bytes < len(flood) + 100 * 600


def test_a_request_in_flight_is_one_object_for_the_garbage_collector() -> None:
    """A hundred such clients have ten thousand requests in flight, and it looks at them on the event loop."""
    wire = Wire(Bench())
    flood = b"".join(map(api_versions, range(100)))
    wire.client_sends(api_versions(0))
    wire.broker_sends(versions(0))
    wire.forwarded()
    before = tracked()
    wire.client_sends(flood)
    wire.take_turns()
    assert len(wire.forwarded()) == 100
    assert tracked() - before < 100 + 50


def tracked() -> int:
    """How many objects the garbage collector looks at."""
    gc.collect()
    return len(gc.get_objects())


def test_repeated_produce_requests_wait_too() -> None:
    wire = Wire(Bench(), max_requests_in_flight=MOST)
    for number in range(3):
        wire.client_sends(produce({"t": batch(b"x")}, correlation_id=number))
        wire.broker_sends(produced("t", correlation_id=number))
    wire.forwarded()
    for number in range(MOST + 5):
        wire.client_sends(produce({"t": batch(b"x")}, correlation_id=number))
    assert ids(wire.forwarded(), 4) == list(range(MOST))
    for number in range(MOST + 5):
        wire.broker_sends(produced("t", correlation_id=number))
    assert ids(wire.forwarded(), 4) == list(range(MOST, MOST + 5))
    assert ids(wire.answered(), 0) == [0, 1, 2, *range(MOST + 5)]


def test_a_closed_client_returns_the_bytes_of_its_waiting_requests() -> None:
    wire = Wire(Bench(), max_requests_in_flight=MOST)
    wire.client_sends(b"".join(map(list_groups, range(100))))
    wire.session.closed(wire.now)
    assert (wire.shared.budget.used, wire.session.held_bytes) == (0, 0)


def behind_a_held_one() -> Wire:
    """A client with a large response that waits for its turn behind one that waits for its rate."""
    bench = Bench()
    bench.set_topic("slow", max_dispatch_rate=1)
    wire = Wire(bench)
    for number, topic in enumerate(["slow", "slow", "fast"]):
        wire.client_sends(fetch(topic, correlation_id=number))
        wire.broker_sends(fetched({topic: batch(b"x" * 50_000)}, correlation_id=number))
    assert ids(wire.answered(), 0) == [0]
    return wire


def test_held_responses_count_in_the_budget() -> None:
    wire = behind_a_held_one()
    assert wire.shared.budget.used == wire.session.held_bytes >= 50_000
    wire.wait(3)
    assert ids(wire.answered(), 0) == [1, 2]
    assert (wire.shared.budget.used, wire.session.held_bytes) == (0, 0)


def test_held_responses_are_returned_to_the_budget_when_their_client_leaves() -> None:
    wire = behind_a_held_one()
    wire.session.closed(wire.now)
    assert wire.shared.budget.used == 0


def test_received_bytes_are_not_kept_until_the_broker_answers() -> None:
    bench = Bench()
    bench.set_topic("small", max_message_size=10)
    wire = Wire(bench)
    publish(wire, {"t": batch(b"x")})
    wire.client_sends(produce({"t": batch(b"x" * 50_000), "small": batch(b"y" * 100)}, correlation_id=5))
    assert len(wire.forwarded()) == 1
    assert wire.session.held_bytes == wire.shared.budget.used == 0
    (owed,) = wire.session.connection.outstanding.queue
    exchange = owed.handle.func.__self__  # type: ignore[union-attr]
    assert exchange._request.frame == b""


KINDS = {"listed": (list_groups, listed), "versions": (api_versions, versions)}


@settings(max_examples=60, deadline=None)
@given(
    kinds=st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=60),
    cuts=st.lists(st.integers(1, 200), min_size=1, max_size=40),
    most=st.integers(1, 8),
    turns=st.randoms(use_true_random=False),
)
def test_no_response_is_lost_or_reordered_however_bytes_arrive(
    kinds: list[str], cuts: list[int], most: int, turns: Any
) -> None:
    wire = Wire(Bench(), max_requests_in_flight=most)
    sent = b"".join(KINDS[kind][0](number) for number, kind in enumerate(kinds))
    pieces: list[bytes] = []
    at = 0
    while at < len(sent):
        size = cuts[len(pieces) % len(cuts)]
        pieces.append(sent[at : at + size])
        at += size
    asked: list[int] = []
    replied = 0
    while pieces or replied < len(kinds):
        if pieces and (replied == len(asked) or turns.random() < 0.6):
            wire.client_sends(pieces.pop(0))
        else:
            wire.broker_sends(KINDS[kinds[replied]][1](asked[replied]))
            replied += 1
        asked += ids(wire.forwarded(), 4)
        assert len(wire.session.connection.outstanding) <= most
    assert asked == ids(wire.answered(), 0) == list(range(len(kinds)))
    assert wire.closed is None
    assert pauses(wire).count(PauseReading) == pauses(wire).count(ResumeReading)
    assert (wire.shared.budget.used, wire.session.held_bytes) == (0, 0)


def test_an_answer_of_the_gateway_that_waits_for_the_broker_counts() -> None:
    wire = Wire(Bench(max_message_size=10))
    wire.client_sends(list_groups(1) + produce({"t": batch(b"x" * 100)}, correlation_id=2))
    assert wire.shared.budget.used == wire.session.held_bytes > 0
    wire.broker_sends(listed(1))
    assert ids(wire.answered(), 0) == [1, 2]
    assert wire.shared.budget.used == 0


def test_answers_of_the_gateway_alone_do_not_stop_reading() -> None:
    """No response of the broker comes that could have the session go on."""
    wire = Wire(Bench(max_message_size=10), max_requests_in_flight=MOST)
    refused = [produce({"t": batch(b"x" * 100)}, correlation_id=number) for number in range(10 * MOST + 3)]
    wire.client_sends(b"".join(refused))
    wire.take_turns()
    assert ids(wire.answered(), 0) == list(range(10 * MOST + 3))
    assert pauses(wire).count(PauseReading) == pauses(wire).count(ResumeReading)
    wire.client_sends(list_groups(1))
    assert ids(wire.forwarded(), 4) == [1]


def test_released_responses_admit_further_requests() -> None:
    bench = Bench()
    bench.set_topic("slow", max_dispatch_rate=1)
    wire = Wire(bench, max_requests_in_flight=2)
    wire.client_sends(fetch("slow", correlation_id=0))
    wire.broker_sends(fetched({"slow": batch(b"x")}, correlation_id=0))
    wire.client_sends(fetch("slow", correlation_id=1) + fetch("slow", correlation_id=2) + list_groups(3))
    for number in (1, 2):
        wire.broker_sends(fetched({"slow": batch(b"x")}, correlation_id=number))
    assert ids(wire.forwarded(), 4) == [0, 1, 2]
    wire.wait(10)
    assert ids(wire.forwarded(), 4) == [3]
    assert ids(wire.answered(), 0) == [0, 1, 2]
