"""The cost of many responses in flight: constant for each, and spread over several turns."""

from collections import deque
from collections.abc import Iterator

import pytest
from tests.kafka.session.messages import batch, fetch, fetched, produce, produced
from tests.kafka.session.requests.test_in_flight import api_versions, ids, list_groups, listed, versions
from tests.kafka.session.wire import Bench, Wire

from sluicegate.broker import Close
from sluicegate_kafka.session.requests.outcomes import Finished, Owed
from sluicegate_kafka.session.requests.pending import Outstanding
from sluicegate_kafka.session.response_stream import RESPONSES_PER_TURN

MANY = 1_000


class Counting(deque[Owed | Finished]):
    """A queue that counts how many of its entries are looked at, other than the first and the last."""

    visits = 0

    def __iter__(self) -> Iterator[Owed | Finished]:
        for each in super().__iter__():
            self.visits += 1
            yield each

    def __contains__(self, entry: object) -> bool:
        return any(each is entry for each in self)

    def index(self, entry: Owed | Finished, *_: int) -> int:
        """Where an entry stands."""
        place = super().index(entry)
        self.visits += place + 1
        return place


def behind_a_held_one(monkeypatch: pytest.MonkeyPatch) -> tuple[Wire, Counting]:
    """A client with so many requests in flight behind a response that waits for its rate."""
    queue = Counting()
    make = Outstanding.__init__

    def counting(self: Outstanding, *arguments: object) -> None:
        make(self, *arguments)  # type: ignore[arg-type]
        self.queue = queue

    monkeypatch.setattr(Outstanding, "__init__", counting)
    wire = Wire(Bench(max_dispatch_rate=1), max_requests_in_flight=2 * MANY)
    for number in range(2):
        wire.client_sends(fetch("t", correlation_id=number))
        wire.broker_sends(fetched({"t": batch(b"x")}, correlation_id=number))
    assert ids(wire.answered(), 0) == [0]
    wire.client_sends(b"".join(api_versions(number) for number in range(2, MANY)))
    wire.take_turns()
    assert len(wire.forwarded()) == MANY
    return wire, queue


def test_a_response_behind_a_held_one_is_placed_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    wire, queue = behind_a_held_one(monkeypatch)
    queue.visits = 0
    for number in range(2, MANY):
        wire.broker_sends(versions(number))
    assert queue.visits <= 2 * MANY
    assert wire.answered() == []
    wire.wait(3)
    assert ids(wire.answered(), 0) == list(range(1, MANY))
    assert (wire.shared.budget.used, wire.session.held_bytes) == (0, 0)


def test_a_turn_releases_some_of_many_responses_in_order() -> None:
    wire = Wire(Bench(), max_requests_in_flight=2 * MANY)
    wire.client_sends(b"".join(map(api_versions, range(MANY))) + list_groups(MANY))
    wire.take_turns()
    assert len(wire.forwarded()) == MANY + 1
    wire.broker_sends(b"".join(map(versions, range(MANY))))
    wire.broker_sends(listed(MANY))
    seen = [ids(wire.answered(), 0)]
    while wire.take_turn():
        seen.append(ids(wire.answered(), 0))
    assert [number for some in seen for number in some] == list(range(MANY + 1))
    assert max(map(len, seen)) <= RESPONSES_PER_TURN + 1
    assert (wire.shared.budget.used, wire.session.held_bytes) == (0, 0)


def test_a_client_closed_between_turns_leaves_no_state() -> None:
    wire = Wire(Bench(), max_requests_in_flight=2 * MANY)
    wire.client_sends(b"".join(map(api_versions, range(MANY))))
    wire.take_turns()
    wire.broker_sends(b"".join(map(versions, range(MANY))))
    wire.session.closed(wire.now)
    assert (wire.shared.budget.used, wire.session.held_bytes) == (0, 0)
    assert wire.take_turns() <= 1


def test_a_full_connection_resumes_as_responses_are_released() -> None:
    wire = Wire(Bench(), max_requests_in_flight=MANY)
    wire.client_sends(b"".join(map(api_versions, range(3 * MANY))))
    wire.take_turns()
    asked: list[int] = []
    while new := ids(wire.forwarded(), 4):
        asked += new
        wire.broker_sends(b"".join(map(versions, new)))
        wire.take_turns()
        assert len(wire.session.connection.outstanding) <= MANY
    assert asked == ids(wire.answered(), 0) == list(range(3 * MANY))
    assert (wire.shared.budget.used, wire.session.held_bytes) == (0, 0)


def test_repeated_produce_requests_of_one_read_wait_for_responses_too() -> None:
    most = 20
    wire = Wire(Bench(), max_requests_in_flight=most)
    for number in range(3):
        wire.client_sends(produce({"t": batch(b"x")}, correlation_id=number))
        wire.broker_sends(produced("t", correlation_id=number))
    wire.forwarded()
    wire.client_sends(b"".join(produce({"t": batch(b"x")}, correlation_id=each) for each in range(100)))
    assert ids(wire.forwarded(), 4) == list(range(most))
    asked = list(range(most))
    for number in range(100):
        wire.broker_sends(produced("t", correlation_id=number))
        wire.take_turns()
        asked += ids(wire.forwarded(), 4)
        assert len(wire.session.connection.outstanding) <= most
    assert asked == list(range(100))
    assert ids(wire.answered(), 0) == [0, 1, 2, *range(100)]


def test_a_full_connection_closes_for_one_reason() -> None:
    most = 20
    wire = Wire(Bench(), max_requests_in_flight=most)
    malformed = (-1).to_bytes(4, "big", signed=True) + bytes(20)
    wire.client_sends(b"".join(map(list_groups, range(most - 1))) + api_versions(most - 1) + malformed)
    assert len(wire.forwarded()) == most
    truncated = (6).to_bytes(4, "big") + (most - 1).to_bytes(4, "big") + bytes(2)
    wire.broker_sends(b"".join(map(listed, range(most - 1))) + truncated)
    closes = [command for command in wire.commands if isinstance(command, Close)]
    assert [close.counter for close in closes] == ["malformed_response"]
    assert wire.commands[-1] is closes[0]
