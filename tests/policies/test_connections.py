"""How fast producers and consumers attach to a whole broker."""

import heapq

import pytest
from tests.policies.lab import MS, SECOND_NS, PolicyLab, attach_consumer, attach_producer, verdict

from sluicegate.model import Action, Operation, OperationKind, Outcome

RATE = "connection_rate_limit"
HELD = (Action.DELAY, RATE, Outcome.LIMIT_REACHED)


@pytest.mark.seed("S1-091")
def test_attachments_above_the_rate_wait_and_none_is_refused(lab: PolicyLab) -> None:
    gate = lab.gate({RATE: 10})
    assert all(gate.decide(attach_producer(str(number)), 0) is None for number in range(10))
    late = [attach_producer("late"), attach_consumer("later")]

    held = [gate.decide(op, 0) for op in late]

    assert [verdict(answer) for answer in held] == [HELD, HELD]
    assert [answer.delay_ns for answer in held if answer] == pytest.approx([100 * MS, 200 * MS], abs=2)
    assert len(gate.state.producers) == 10
    assert gate.decide(late[0], 101 * MS) is None
    assert gate.decide(late[1], 201 * MS) is None
    assert len(gate.state.producers) == 11


@pytest.mark.seed("S1-091")
def test_all_topics_of_a_broker_share_one_limiter_and_brokers_do_not(lab: PolicyLab) -> None:
    gates = [lab.gate({RATE: 4}, topic=f"t{number}") for number in range(3)]

    answers = [gates[number % 3].decide(attach_producer(f"p{number}"), 0) for number in range(6)]

    assert [answer is None for answer in answers] == [True] * 4 + [False] * 2
    assert PolicyLab().gate({RATE: 4}).decide(attach_producer("p"), 0) is None


def test_connecting_counts_too_and_publishing_does_not(lab: PolicyLab) -> None:
    gate = lab.gate({RATE: 1})

    assert gate.decide(Operation(OperationKind.CONNECT, "", client="a"), 0) is None
    assert verdict(gate.decide(Operation(OperationKind.CONNECT, "", client="b"), 0)) == HELD
    assert not gate.asks(OperationKind.DISPATCH)


@pytest.mark.seed("S1-091")
def test_a_storm_passes_at_the_rate_with_few_attempts_though_some_give_up(lab: PolicyLab) -> None:
    gate = lab.gate({RATE: 50})
    wakes = [(0, number) for number in range(400)]
    attached: list[int] = []
    attempts = 0
    while wakes:
        now_ns, number = heapq.heappop(wakes)
        attempts += 1
        # A client that comes back is checked again, as after a reconnect: none keeps a place.
        held = gate.decide(attach_producer(f"p{number}"), now_ns)
        if held is None:
            attached.append(now_ns)
        elif number % 4:
            heapq.heappush(wakes, (now_ns + held.delay_ns, number))

    assert len(attached) == pytest.approx(300, abs=50)
    assert attempts < 400 * 8
    for start_ns in attached:
        assert sum(start_ns <= at_ns <= start_ns + SECOND_NS for at_ns in attached) <= 101
    assert attached[-1] == pytest.approx((len(attached) - 50) / 50 * SECOND_NS, rel=0.1)


def test_a_changed_rate_applies_to_all_topics_at_once(lab: PolicyLab) -> None:
    gate = lab.gate({RATE: 1})
    gate.decide(attach_producer("one"), 0)
    held = attach_producer("two")
    gate.decide(held, 0)

    lab.gate({RATE: 1000}, topic="another", now_ns=MS)

    assert gate.decide(held, 3 * MS) is None


def test_an_observed_rate_holds_no_operation(lab: PolicyLab) -> None:
    gate = lab.gate({RATE: 1, f"mode.{RATE}": "observe"})

    assert all(gate.decide(attach_producer(str(number)), 0) is None for number in range(5))
    assert gate.state.observed == 4
    enforced = lab.gate({RATE: 1})
    assert enforced.decide(attach_producer("x"), 0) is None


def test_a_refused_attachment_is_not_charged(lab: PolicyLab) -> None:
    gate = lab.gate({RATE: 2, "max_producers_per_topic": 1})
    gate.decide(attach_producer("one"), 0)
    for number in range(5):
        refused = gate.decide(attach_producer(f"extra {number}"), 0)
        assert refused is not None
        assert refused.action is Action.REJECT

    assert gate.decide(attach_consumer("c"), 0) is None
