"""The table of a producer's states: every event in every state, and the way of a whole life."""

from itertools import product

import pytest

from sluicegate_pulsar.session.producer_state.lifecycle import TRANSITIONS, Event, Lifecycle, State

_WAYS = {
    State.ATTACHING: (),
    State.OPEN: (Event.OPENED,),
    State.OVERFLOWING: (Event.OPENED, Event.OVERFLOWS),
    State.REOPENING: (Event.OPENED, Event.OVERFLOWS, Event.TOLD_TO_REOPEN),
    State.CLOSING: (Event.OPENED, Event.IS_TO_CLOSE),
    State.CLOSED: (Event.ENDED,),
}


def in_state(state: State) -> Lifecycle:
    """A producer that has come to a state."""
    lifecycle = Lifecycle()
    for event in _WAYS[state]:
        lifecycle.happens(event)
    assert lifecycle.state is state
    return lifecycle


@pytest.mark.parametrize(("state", "event"), list(product(State, Event)))
def test_each_event_leads_to_its_state_or_is_a_fault(state: State, event: Event) -> None:
    lifecycle = in_state(state)
    after = TRANSITIONS.get((state, event))
    if after is None:
        with pytest.raises(ValueError, match=f"a producer that is {state.value}"):
            lifecycle.happens(event)
        after = state
    else:
        assert lifecycle.happens(event) is (after is not state)
    assert lifecycle.state is after


def test_nothing_comes_after_the_end_and_everything_may_end() -> None:
    ends = {state for state, event in TRANSITIONS if event is Event.ENDED}
    assert ends == set(State) - {State.CLOSED}
    assert not [event for state, event in TRANSITIONS if state is State.CLOSED]


def test_the_time_of_an_overflow_counts_from_when_it_is_noticed_until_the_producer_is_open_again() -> None:
    lifecycle = in_state(State.OVERFLOWING)
    assert (lifecycle.overflowed_ns(5), lifecycle.overflowed_ns(9)) == (5, 5)
    lifecycle.happens(Event.TOLD_TO_REOPEN)
    assert lifecycle.overflowed_ns(9) == 5
    lifecycle.happens(Event.REOPENED)
    lifecycle.happens(Event.OVERFLOWS)
    assert lifecycle.overflowed_ns(20) == 20
