"""A policy that applies to a canary: these are held or refused, all others only recorded."""

import heapq
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.policies.lab import MS, SECOND_NS, PolicyLab, attach_producer, dispatch, publish

from sluicegate.engine.factors import Factor, Factors
from sluicegate.model import Action, Operation, PolicyValue
from sluicegate.testing import ManualContext

RATE = "max_publish_rate"
BYTES = "max_publish_rate_bytes"
ALICE = "canary principals alice"


@pytest.fixture
def lab() -> PolicyLab:
    return PolicyLab()


def of(principal: str, op: Operation) -> Operation:
    return replace(op, principal=principal)


def on_canary(policy: str, value: PolicyValue) -> dict[str, PolicyValue]:
    return {policy: value, f"mode.{policy}": ALICE}


@pytest.mark.seed("S1-144", "X-07")
def test_a_rate_holds_the_canary_and_lets_all_others_pass(lab: PolicyLab) -> None:
    gate = lab.gate(on_canary(RATE, 10))
    assert all(gate.publish(of("bob", publish()), 0) is None for _ in range(20))
    held = gate.publish(of("alice", publish()), 0)

    assert held is not None
    assert held.action is Action.DELAY
    assert gate.state.observed == 10
    assert gate.state.delayed == 1
    assert {key[:2]: count for key, count in gate.state.violations.items()} == {
        (RATE, "would_delay"): 10,
        (RATE, "delay"): 1,
    }


def test_others_leave_no_place_in_the_queue_and_no_debt(lab: PolicyLab) -> None:
    gate = lab.gate(on_canary(RATE, 10))
    for _ in range(1_000):
        gate.publish(of("bob", publish()), 0)
    op = of("alice", publish())
    held = gate.publish(op, 0)

    assert held is not None
    assert gate.publish(op, held.delay_ns) is None
    assert gate.state.limiters[f"canary {RATE}"].waiting == 0
    assert len(gate.state.broker.held) == 0


@pytest.mark.parametrize("mode", ["observe", ALICE])
def test_enforcing_begins_without_what_passed_before(lab: PolicyLab, mode: str) -> None:
    gate = lab.gate({RATE: 10, f"mode.{RATE}": mode})
    assert all(gate.publish(of("bob", publish()), 0) is None for _ in range(1_000))

    enforced = lab.gate({RATE: 10, f"mode.{RATE}": "enforce"})
    assert sum(enforced.publish(of("bob", publish()), 0) is None for _ in range(20)) == 10


def test_what_the_enforced_part_holds_is_not_charged_to_the_canary(lab: PolicyLab) -> None:
    gate = lab.gate({RATE: 1, **on_canary(BYTES, 1_000)})
    op = of("alice", publish(1, 100))
    assert gate.publish(of("alice", publish(1, 100)), 0) is None
    for wake in range(5):
        assert gate.publish(op, wake * MS) is not None

    bucket = gate.state.limiters[f"canary {BYTES}"].bucket
    assert bucket.balance(5 * MS)[1] == pytest.approx(905)
    assert gate.publish(op, SECOND_NS) is None
    assert bucket.balance(SECOND_NS)[1] == pytest.approx(900)


def test_two_dimensions_may_have_canaries_that_differ(lab: PolicyLab) -> None:
    values: dict[str, PolicyValue] = {
        RATE: 5,
        BYTES: 1_000,
        f"mode.{RATE}": ALICE,
        f"mode.{BYTES}": "canary principals bob",
    }
    gate = lab.gate(values)
    assert all(gate.publish(of("carol", publish(1, 500)), 0) is None for _ in range(6))

    by_messages, by_bytes = (gate.publish(of(name, publish(1, 500)), 0) for name in ("alice", "bob"))
    assert by_messages is not None
    assert by_bytes is not None
    assert (by_messages.reasons[0].policy, by_bytes.reasons[0].policy) == (RATE, BYTES)


@pytest.mark.parametrize("policy", ["max_dispatch_rate", "max_subscription_dispatch_rate"])
def test_a_dispatch_rate(lab: PolicyLab, policy: str) -> None:
    gate = lab.gate(on_canary(policy, 10))
    assert all(gate.dispatch(of("bob", dispatch()), 0) is None for _ in range(20))
    op = of("alice", dispatch())
    held = gate.dispatch(op, 0)

    assert held is not None
    assert gate.state.observed == 10
    assert gate.dispatch(op, held.delay_ns) is None


@pytest.mark.parametrize("policy", ["publish_quota", "principal_publish_quota"])
def test_a_quota(lab: PolicyLab, policy: str) -> None:
    gate = lab.gate({policy: 10, f"mode.{policy}": "canary principals alice|anna"})
    assert all(gate.publish(of("bob", publish()), 0) is None for _ in range(20))
    results = [gate.publish(of("alice", publish()), 0) for _ in range(11)]

    assert sum(result is None for result in results) == (0 if policy == "publish_quota" else 10)
    assert all(gate.publish(of("bob", publish()), 0) is None for _ in range(20))


def test_a_count(lab: PolicyLab) -> None:
    gate = lab.gate(on_canary("max_producers_per_topic", 1))
    assert gate.decide(of("bob", attach_producer("b1")), 0) is None
    assert gate.decide(of("bob", attach_producer("b2")), 0) is None
    refused = gate.decide(of("alice", attach_producer("a1")), 0)

    assert refused is not None
    assert refused.action is Action.REJECT


def test_a_size(lab: PolicyLab) -> None:
    gate = lab.gate(on_canary("max_message_size", 100))
    assert gate.publish(of("bob", publish(nbytes=101)), 0) is None
    refused = gate.publish(of("alice", publish(nbytes=101)), 0)
    assert refused is not None
    assert refused.action is Action.REJECT


def test_a_factor_holds_the_canary_and_all_others_owe_it_nothing(lab: PolicyLab) -> None:
    disk = Factor("disk", "Wait.")
    lab.context = ManualContext(factors=Factors((disk,)))
    gate = lab.gate({RATE: 100, "mode.disk": ALICE})
    disk.set(0.1, "full")
    assert sum(gate.publish(of("bob", publish()), 0) is None for _ in range(100)) == 100
    op = of("alice", publish())
    held = gate.publish(op, SECOND_NS)
    assert held is None or gate.publish(op, SECOND_NS + held.delay_ns) is None

    disk.set(0, "stopped")
    assert gate.publish(of("bob", publish()), 2 * SECOND_NS) is None
    assert gate.publish(of("alice", publish()), 2 * SECOND_NS) is not None


@settings(max_examples=40, deadline=None)
@given(rate=st.integers(1, 200), others=st.integers(0, 400), canary=st.integers(1, 4))
def test_the_canary_is_bounded_and_gets_its_rate_however_much_others_publish(
    rate: int, others: int, canary: int
) -> None:
    lab = PolicyLab()
    gate = lab.gate(on_canary(RATE, rate))
    wakes = [(0, number) for number in range(canary)]
    ops = [of("alice", publish()) for _ in wakes]
    if others:
        wakes.append((0, canary))
    times: list[int] = []
    while wakes[0][0] < 3 * SECOND_NS:
        now_ns, number = heapq.heappop(wakes)
        if number == canary:
            assert gate.publish(of("bob", publish()), now_ns) is None
            heapq.heappush(wakes, (now_ns + SECOND_NS // others, number))
            continue
        held = gate.publish(ops[number], now_ns)
        if held is None:
            times.append(now_ns)
        heapq.heappush(wakes, (now_ns + (held.delay_ns if held else 1_000), number))

    for start in times[:: max(1, len(times) // 50)]:
        assert sum(start <= time <= start + SECOND_NS for time in times) <= 2 * rate + 1
    assert sum(time > SECOND_NS for time in times) >= 2 * rate - canary - 1
