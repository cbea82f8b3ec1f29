"""Messages that a consumer has not acknowledged."""

import pytest
from tests.policies.lab import PolicyLab, attach_consumer, dispatch, verdict

from sluicegate.model import Action, Operation, OperationKind, Outcome

UNACKED = "max_unacked_messages_per_consumer"
PAUSED = (Action.DELAY, UNACKED, Outcome.LIMIT_REACHED)


def acknowledge(messages: int) -> Operation:
    op = dispatch(messages)
    op.kind = OperationKind.ACKNOWLEDGE
    return op


@pytest.mark.seed("S1-090")
def test_dispatch_pauses_at_the_limit_until_acknowledgements_arrive(lab: PolicyLab) -> None:
    gate = lab.gate({UNACKED: 3})
    assert all(gate.dispatch(dispatch(), 0) is None for _ in range(3))
    op = dispatch()

    assert verdict(gate.dispatch(op, 0)) == PAUSED
    assert gate.decide(acknowledge(1), 0) is None
    assert gate.dispatch(op, 0) is None
    assert verdict(gate.dispatch(dispatch(), 0)) == PAUSED
    assert gate.state.subscription("s").unacked == {"c": 3}


def test_consumers_are_counted_apart_and_forgotten_when_they_go(lab: PolicyLab) -> None:
    gate = lab.gate({UNACKED: 1})
    gate.decide(attach_consumer("c"), 0)
    assert gate.dispatch(dispatch(), 0) is None
    other = dispatch()
    other.consumer = "d"
    assert gate.dispatch(other, 0) is None

    gate.detach(attach_consumer("c"))
    assert gate.dispatch(dispatch(), 0) is None


def test_a_batch_above_the_limit_goes_to_a_consumer_without_pending_messages(lab: PolicyLab) -> None:
    gate = lab.gate({UNACKED: 10})

    assert gate.dispatch(dispatch(25), 0) is None
    assert verdict(gate.dispatch(dispatch(1), 0)) == PAUSED
    gate.decide(acknowledge(30), 0)
    assert gate.state.subscription("s").unacked == {}
    assert gate.dispatch(dispatch(6), 0) is None
    assert verdict(gate.dispatch(dispatch(5), 0)) == PAUSED


def test_what_the_rate_holds_is_not_counted_before_it_goes(lab: PolicyLab) -> None:
    gate = lab.gate({UNACKED: 100, "max_dispatch_rate": 1})
    assert gate.dispatch(dispatch(), 0) is None
    op = dispatch()

    for now_ns in range(5):
        assert gate.dispatch(op, now_ns) is not None
    assert gate.state.subscription("s").unacked == {"c": 1}
    assert gate.dispatch(op, 2 * 10**9) is None
    assert gate.state.subscription("s").unacked == {"c": 2}


def test_unreliable_delivery_is_not_acknowledged_so_not_counted(lab: PolicyLab) -> None:
    gate = lab.gate({UNACKED: 1})

    assert all(gate.dispatch(dispatch(reliable=False), 0) is None for _ in range(10))
    assert gate.state.subscription("s").unacked == {}


def test_observed_counts_continue_and_refuse_no_one(lab: PolicyLab) -> None:
    gate = lab.gate({UNACKED: 1, f"mode.{UNACKED}": "observe"})

    assert all(gate.dispatch(dispatch(), 0) is None for _ in range(3))
    assert gate.state.observed == 2
    assert gate.state.subscription("s").unacked == {"c": 3}
