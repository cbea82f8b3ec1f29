"""Dispatch rates of topics and subscriptions: both pass, or neither is charged."""

import pytest
from tests.policies.lab import MS, SECOND_NS, PolicyLab, dispatch, publish, verdict

from sluicegate.model import Action, Outcome, PolicyValue

TOPIC = "max_dispatch_rate"
TOPIC_BYTES = "max_dispatch_rate_bytes"
SUBSCRIPTION = "max_subscription_dispatch_rate"
SUBSCRIPTION_BYTES = "max_subscription_dispatch_rate_bytes"


@pytest.mark.seed("S1-006", "S1-071", "S1-072", "S1-073", "S1-122")
def test_the_topics_rate_is_for_all_subscriptions_together(lab: PolicyLab) -> None:
    gate = lab.gate({TOPIC: 10})
    assert all(gate.dispatch(dispatch(subscription=f"s{number % 2}"), 0) is None for number in range(10))

    held = gate.dispatch(dispatch(), 0)

    assert verdict(held) == (Action.DELAY, TOPIC, Outcome.LIMIT_REACHED)
    assert held is not None
    assert held.delay_ns == pytest.approx(100 * MS, abs=1)
    assert held.text.startswith("Dispatch rate limit exceeded for topic /default/orders. Current: 11 ")


@pytest.mark.seed("S1-007", "S1-080", "S1-081", "S1-122")
def test_each_subscription_has_its_own_limiter(lab: PolicyLab) -> None:
    gate = lab.gate({SUBSCRIPTION: 10})

    for name in ("one", "two"):
        assert gate.dispatch(dispatch(10, subscription=name), 0) is None
        held = gate.dispatch(dispatch(subscription=name), 0)
        assert verdict(held) == (Action.DELAY, SUBSCRIPTION, Outcome.LIMIT_REACHED)
        assert held is not None
        assert f"for topic /default/orders subscription {name}." in held.text


@pytest.mark.seed("S1-082", "S1-065")
@pytest.mark.parametrize(
    ("values", "short"),
    [({TOPIC: 10, SUBSCRIPTION: 100}, TOPIC), ({TOPIC: 100, SUBSCRIPTION: 10}, SUBSCRIPTION)],
)
def test_both_must_pass_and_neither_is_charged_alone(
    lab: PolicyLab, values: dict[str, PolicyValue], short: str
) -> None:
    gate = lab.gate(values)
    assert gate.dispatch(dispatch(10), 0) is None
    buckets = [gate.state.limiters[TOPIC].bucket, gate.state.subscriptions["s"].limiters[SUBSCRIPTION].bucket]
    before = [bucket.balance(0) for bucket in buckets]

    for _ in range(5):
        assert verdict(gate.dispatch(dispatch(5), 0)) == (Action.DELAY, short, Outcome.LIMIT_REACHED)

    assert [bucket.balance(0) for bucket in buckets] == before


def test_if_both_are_short_both_reasons_are_kept_and_the_longer_wait_counts(lab: PolicyLab) -> None:
    gate = lab.gate({TOPIC: 10, SUBSCRIPTION: 5, SUBSCRIPTION_BYTES: 10**6})
    assert gate.dispatch(dispatch(10), 0) is None

    held = gate.dispatch(dispatch(), 0)

    assert held is not None
    assert [reason.policy for reason in held.reasons] == [TOPIC, SUBSCRIPTION]
    assert held.delay_ns == SECOND_NS  # the subscription owes five messages: more than a second


@pytest.mark.seed("S1-070", "S1-081")
@pytest.mark.parametrize("policy", [TOPIC, SUBSCRIPTION_BYTES])
def test_drop_only_where_nothing_was_promised(lab: PolicyLab, policy: str) -> None:
    gate = lab.gate({policy: 10, f"on_limit.{policy}": "drop"})
    assert gate.dispatch(dispatch(10, 10), 0) is None

    dropped = gate.dispatch(dispatch(reliable=False), 0)
    delayed = gate.dispatch(dispatch(reliable=True), 0)

    assert dropped is not None
    assert delayed is not None
    assert (dropped.action, delayed.action) == (Action.DROP, Action.DELAY)


@pytest.mark.seed("S1-071", "S1-076")
def test_what_is_held_is_delivered_later_and_counted_once(lab: PolicyLab) -> None:
    gate = lab.gate({TOPIC: 100, SUBSCRIPTION_BYTES: 5000})
    now_ns = delivered = 0
    for _ in range(50):
        op = dispatch(10, 700)
        while (held := gate.dispatch(op, now_ns)) is not None:
            assert held.action is Action.DELAY
            now_ns += held.delay_ns
        delivered += op.messages

    assert delivered == gate.state.dispatched_messages == 500
    assert now_ns == pytest.approx((50 * 700 - 5000) / 5000 * SECOND_NS, rel=0.01)


def test_an_operation_of_no_subscription_meets_the_topics_rate_only(lab: PolicyLab) -> None:
    gate = lab.gate({TOPIC: 10, SUBSCRIPTION: 1})

    assert all(gate.dispatch(dispatch(subscription=""), 0) is None for _ in range(10))
    assert gate.dispatch(dispatch(subscription=""), 0) is not None
    assert gate.state.subscriptions == {}


@pytest.mark.seed("S1-024")
def test_a_changed_rate_reaches_subscriptions_that_have_a_limiter(lab: PolicyLab) -> None:
    gate = lab.gate({SUBSCRIPTION: 10})
    assert gate.dispatch(dispatch(10), 0) is None

    gate = lab.gate({SUBSCRIPTION: 1000}, now_ns=0)

    assert gate.dispatch(dispatch(10), 10 * MS + 1) is None


@pytest.mark.seed("S1-144")
def test_observed_subscriptions_do_not_hold_an_enforced_topic(lab: PolicyLab) -> None:
    gate = lab.gate({TOPIC_BYTES: 1000, SUBSCRIPTION: 1, f"mode.{SUBSCRIPTION}": "observe"})

    assert all(gate.dispatch(dispatch(1, 100), 0) is None for _ in range(10))
    assert gate.state.observed == 9
    assert verdict(gate.dispatch(dispatch(1, 100), 0)) == (Action.DELAY, TOPIC_BYTES, Outcome.LIMIT_REACHED)
    enforced = lab.gate({SUBSCRIPTION: 10})
    assert enforced.dispatch(dispatch(10), 0) is None


def test_publishing_and_dispatch_do_not_share_a_limiter(lab: PolicyLab) -> None:
    gate = lab.gate({TOPIC: 1, "max_publish_rate": 1})

    assert gate.dispatch(dispatch(), 0) is None
    assert gate.publish(publish(), 0) is None


@pytest.mark.seed("S1-007", "S1-080")
@pytest.mark.parametrize("values", [{SUBSCRIPTION: 10}, {SUBSCRIPTION: 10, TOPIC: 100}])
def test_what_may_be_for_several_subscriptions_is_charged_to_all_or_to_none(
    lab: PolicyLab, values: dict[str, PolicyValue]
) -> None:
    gate = lab.gate(values)
    either = dispatch(6, subscription="one")
    either.also = ("two",)
    assert gate.dispatch(either, 0) is None
    assert gate.dispatch(dispatch(4, subscription="two"), 0) is None

    held = gate.dispatch(either, 0)
    assert held is not None
    assert (held.action, {reason.policy for reason in held.reasons}) == (Action.DELAY, {SUBSCRIPTION})
    balances = [
        gate.state.subscriptions[name].limiters[SUBSCRIPTION].bucket.balance(0)[0] for name in ("one", "two")
    ]
    assert balances == [4, 0]


def test_subscriptions_that_come_and_go_without_number_are_forgotten_once_they_are_full(
    lab: PolicyLab,
) -> None:
    gate = lab.gate({SUBSCRIPTION: 10})
    for number in range(1_000):
        assert gate.dispatch(dispatch(10, subscription=f"s{number}"), 1 + number * SECOND_NS // 100) is None
    assert len(gate.state.subscriptions) <= 256 + 101
    # Those that still owe something are kept: one that comes back must not begin with a burst again.
    assert gate.dispatch(dispatch(10, subscription="s990"), 10 * SECOND_NS) is not None
