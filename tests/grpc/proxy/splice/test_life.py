"""The states of a client connection."""

import pytest

from sluicegate.broker import Close
from sluicegate.model import ConnectionClose
from sluicegate_grpc.proxy.splice.life import PASSING, TRANSITIONS, Event, Life, State
from sluicegate_grpc.semantics.status import UNAVAILABLE, Refusal

TABLE = {
    (State.OPENING, Event.CONNECTED): State.OPEN,
    (State.OPENING, Event.UNREACHABLE): State.UNREACHABLE,
    (State.OPENING, Event.BROKEN): State.CLOSED,
    (State.OPEN, Event.ENDING): State.REFUSING,
    (State.OPEN, Event.GOAWAY): State.DRAINING,
    (State.OPEN, Event.BROKEN): State.CLOSED,
    (State.REFUSING, Event.GOAWAY): State.DRAINING,
    (State.REFUSING, Event.BROKEN): State.CLOSED,
    (State.DRAINING, Event.BROKEN): State.CLOSED,
}
WAYS = {
    State.OPENING: [],
    State.OPEN: [Event.CONNECTED],
    State.REFUSING: [Event.CONNECTED, Event.ENDING],
    State.DRAINING: [Event.CONNECTED, Event.GOAWAY],
    State.UNREACHABLE: [Event.UNREACHABLE],
    State.CLOSED: [Event.BROKEN],
}
"""What leads to each state."""
REFUSAL = Refusal(UNAVAILABLE, "The gateway ends.")


def in_state(state: State) -> Life:
    life = Life()
    for event in WAYS[state]:
        assert life.happens(event)
    assert life.state is state
    return life


@pytest.mark.parametrize("event", Event)
@pytest.mark.parametrize("state", State)
def test_each_event_leads_to_the_state_of_the_table_or_changes_nothing(state: State, event: Event) -> None:
    life = in_state(state)
    assert life.happens(event) == ((state, event) in TABLE)
    assert life.state is TABLE.get((state, event), state)


def test_the_table_is_the_one_of_the_readme() -> None:
    assert TRANSITIONS == TABLE
    assert {State.OPEN, State.REFUSING, State.DRAINING} == PASSING


def test_requests_are_refused_only_before_goaway() -> None:
    life = in_state(State.OPEN)
    for until_ns in (5, 7):
        life.refuse(REFUSAL, until_ns)
        assert (life.state, life.refusal, life.refuses_until_ns) == (State.REFUSING, REFUSAL, until_ns)
    for state in (State.DRAINING, State.CLOSED, State.OPENING):
        life = in_state(state)
        life.refuse(REFUSAL, 5)
        assert (life.state, life.refusal, life.refuses_until_ns) == (state, None, 0)


def test_the_first_reason_closes_a_connection() -> None:
    life = in_state(State.DRAINING)
    life.fail(Close(ConnectionClose.UPSTREAM_UNREACHABLE, "first"))
    life.fail(Close(ConnectionClose.UPSTREAM_UNREACHABLE, "second"))
    assert life.close is not None
    assert life.close.detail == "first"


def test_no_goaway_names_a_later_stream_than_the_one_before() -> None:
    life = Life()
    assert [life.last_stream(last) for last in (9, 5, 7)] == [9, 5, 5]
