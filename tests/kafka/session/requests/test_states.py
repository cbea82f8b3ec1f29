"""Which event leads a connection from one state to another."""

import pytest
from tests.kafka.session.messages import fetch
from tests.kafka.session.wire import Bench, Wire

from sluicegate_kafka.session.requests.states import Event, State

MOVES = {
    State.NEW: {
        Event.OPENING: State.OPEN,
        Event.LOGIN: State.UNAUTHENTICATED,
        Event.REQUEST: State.OPEN,
        Event.ENDING: State.DRAINING,
        Event.CLOSED: State.CLOSED,
    },
    State.UNAUTHENTICATED: {
        Event.ACCEPTED: State.OPEN,
        Event.REQUEST: State.OPEN,
        Event.ENDING: State.DRAINING,
        Event.CLOSED: State.CLOSED,
    },
    State.OPEN: {
        Event.LOGIN: State.UNAUTHENTICATED,
        Event.ENDING: State.DRAINING,
        Event.CLOSED: State.CLOSED,
    },
    State.DRAINING: {Event.CLOSED: State.CLOSED},
    State.CLOSED: {},
}
WAYS = {
    State.NEW: (),
    State.UNAUTHENTICATED: (Event.LOGIN,),
    State.OPEN: (Event.REQUEST,),
    State.DRAINING: (Event.ENDING,),
    State.CLOSED: (Event.CLOSED,),
}
"""What leads to each state from the first one."""


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("event", Event)
def test_an_event_leads_on_or_changes_nothing(state: State, event: Event) -> None:
    connection = Wire(Bench()).session.connection
    for each in WAYS[state]:
        connection.happened(each)
    assert connection.state is state

    connection.happened(event)

    assert connection.state is MOVES[state].get(event, state)


def test_a_connection_drains_until_it_is_closed() -> None:
    wire = Wire(Bench())

    def state() -> State:
        return wire.session.connection.state

    wire.client_sends(fetch("t"))
    assert state() is State.OPEN

    assert wire.session.ending(wire.now) == ()
    assert state() is State.DRAINING
    wire.client_sends(fetch("t"))
    assert state() is State.DRAINING

    wire.session.closed(wire.now)
    assert state() is State.CLOSED
