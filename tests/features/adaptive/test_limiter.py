"""The limit of one topic: nothing while it is off, exact while it is on, and no part of any other limit."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.features.adaptive.lab import Lab

from sluicegate.engine.bucket import DualBucket
from sluicegate.engine.check import Stage
from sluicegate.engine.gate import Gate
from sluicegate.engine.leased_bucket import LeasedBucket
from sluicegate.engine.state import BrokerState, TopicState
from sluicegate.features.adaptive.limiter import AdaptiveLimiter
from sluicegate.leasing.tokens import LeasedBuckets
from sluicegate.model import Action, EffectivePolicies, Operation, OperationKind, TopicName
from sluicegate.policies import builtin_plugins

STATIC = {"max_publish_rate": 50}


def calls(gate: Gate) -> list[object]:
    """What a publish of this gate calls."""
    return [call for call in (gate._first, gate._second, gate._third) if call is not None]


def throttled(**options: object) -> Lab:
    lab = Lab(**options)  # type: ignore[arg-type]
    lab.learn(1000)
    lab.press(0.95)
    lab.cycle()
    return lab


@pytest.mark.seed("S5-034", "S5-080")
def test_a_gate_calls_nothing_of_it_while_it_is_off() -> None:
    lab = Lab()
    assert calls(lab.gates["t0"]) == []
    lab.learn(1000)
    lab.press(0.95)
    lab.cycle()
    assert len(calls(lab.gates["t0"])) == 2
    lab.press(0.0)
    lab.cycle()
    assert calls(lab.gates["t0"]) == []
    assert lab.publish(5000) == 5000
    assert lab.sink.decisions == []


@pytest.mark.seed("S5-034")
def test_turning_it_compiles_no_gate() -> None:
    lab = Lab()
    gate = lab.gates["t0"]
    lab.learn(1000)
    for share in (0.95, 0.0) * 3:
        lab.press(share)
        lab.cycle()
    assert lab.gates["t0"] is gate
    assert lab.topic().limiter.switch.flips == 6


@pytest.mark.seed("S5-034", "S5-082")
def test_it_starts_empty_so_that_no_burst_passes_when_throttling_begins() -> None:
    lab = throttled()
    assert lab.publish(2000) == 0
    lab.clock.advance(ms=101)
    assert lab.publish(2000) == 75
    lab.clock.advance(10)
    assert lab.publish(2000) == 750


@pytest.mark.seed("S5-028")
def test_bytes_hold_too() -> None:
    lab = throttled()
    lab.clock.advance(1)
    assert lab.publish(750, nbytes=200) == 375  # 75 kB/s


@given(st.lists(st.tuples(st.floats(0, 0.5), st.integers(0, 500)), min_size=1, max_size=12))
@pytest.mark.seed("S5-038")
def test_never_more_than_rate_and_one_bucket(attempts: list[tuple[float, int]]) -> None:
    lab = throttled()
    began, passed = lab.clock(), 0
    for pause, count in attempts:
        lab.clock.advance(pause)
        passed += lab.publish(count)
        assert passed <= 750 * (lab.clock() - began) / 1e9 + 1


@pytest.mark.seed("S5-037", "S5-083", "S5-084", "S5-090", "X-04")
def test_static_and_adaptive_limits_do_not_touch_each_other() -> None:
    lab = throttled(topic_policies=STATIC)
    assert lab.publish(100) == 0
    static = lab.state().limiters["max_publish_rate"].bucket
    assert static.balance(lab.clock())[0] == 50  # what the adaptive limit held was never charged here
    lab.clock.advance(ms=200)
    assert lab.publish(200) == 50  # the static bucket; the adaptive one would have 150
    adaptive = lab.topic().limiter.queue.bucket
    assert adaptive.balance(lab.clock())[0] == pytest.approx(100)
    decision = lab.decide()
    assert decision is not None
    assert [reason.policy for reason in decision.reasons] == ["max_publish_rate"]
    lab.press(0.0)
    lab.cycle(seconds=0.0001)
    decision = lab.decide()
    assert decision is not None  # releasing the one does not release the other
    assert [reason.policy for reason in decision.reasons] == ["max_publish_rate"]
    lab.clock.advance(10)
    assert lab.publish(200) == 50


@pytest.mark.seed("S5-037", "S5-084")
def test_removing_a_static_limit_keeps_the_adaptive_one() -> None:
    lab = throttled(topic_policies=STATIC)
    lab._policies.pop("max_publish_rate")
    lab.gates["t0"] = lab.gate("t0")
    assert lab.topic().limiter.switch.on
    lab.clock.advance(10)
    assert lab.publish(2000) == 750


@pytest.mark.seed("S5-084")
def test_static_limits_are_as_ever_while_it_is_enabled_and_off() -> None:
    with_it, without = Lab(topic_policies=STATIC), Lab(topic_policies=STATIC, enabled=False)
    for lab in (with_it, without):
        passed = []
        for _ in range(5):
            passed.append(lab.publish(100))
            lab.clock.advance(ms=500)
        assert passed == [50, 25, 25, 25, 25]


@pytest.mark.seed("S5-034", "S5-055")
def test_a_policy_change_keeps_the_limiter_and_its_balance() -> None:
    lab = throttled()
    lab.clock.advance(1)
    assert lab.publish(2000) == 750
    lab._policies["burst_seconds"] = 2.0
    lab.gates["t0"] = lab.gate("t0")
    assert lab.topic().limiter.switch.on
    assert lab.publish(10) == 0
    lab.clock.advance(10)
    assert lab.publish(5000) == 1500


def test_the_burst_of_a_scope_is_not_that_of_the_limit_that_all_share() -> None:
    lab = throttled()
    common = lab.gates["t0"].policies
    own = replace(common, values={**common.values, "burst_seconds": 9.0}, common=common)
    lab.topic().limiter.update(own, lab.clock())
    assert lab.topic().limiter.burst_seconds == 1.0


@pytest.mark.seed("S5-042")
def test_who_waits_goes_on_at_the_next_question_once_released() -> None:
    lab = throttled()
    gate = lab.gates["t0"]
    held = [Operation(OperationKind.PUBLISH, "t0", messages=1, bytes=10, largest=10) for _ in range(3)]
    for op in held:
        decision = gate.publish(op, lab.clock())
        assert decision is not None
        assert decision.action is Action.DELAY
        assert decision.delay_ns <= 1_000_000_000
    line = lab.topic().limiter.queue
    assert line.waiting == 3
    lab.set(observe_only=True)
    lab.cycle(seconds=0.1)
    assert [gate.publish(op, lab.clock()) for op in held] == [None] * 3
    assert line.waiting == 0


@pytest.mark.seed("S5-083")
def test_the_order_of_reasons_for_throttling_is_stable() -> None:
    """Decisions and metrics carry names and never places, so no reason can take another's; this is the list.

    It may only grow at its end: static limits first, adaptive throttling with what follows the broker.
    """
    names = [type(plugin).__name__ if hasattr(plugin, "__dict__") else "" for plugin in builtin_plugins()]
    assert names[-1] == "AdaptiveThrottling"
    lab = Lab(topic_policies={**STATIC, "max_publish_rate_bytes": 1_000_000})
    entries = lab.gates["t0"]._entries[OperationKind.PUBLISH]
    found = [(entry.check.stage, entry.check.policy) for entry in entries]
    assert found == [
        (Stage.RATE, "adaptive_publish_throttling"),  # looks only
        (Stage.RATE, "max_publish_rate"),  # takes, so it is the last of the stage
        (Stage.ACCOUNT, "adaptive_publish_throttling"),
    ]
    assert [stage.name for stage in Stage] == ["SIZE", "COUNT", "CUSTOM", "RATE", "ACCOUNT"]


@pytest.mark.seed("S5-083")
def test_throttling_twice_is_one_throttling_and_one_release_ends_it() -> None:
    lab = throttled()
    limiter = lab.topic().limiter
    for _ in range(3):
        limiter.limit(500, 50_000, (1000.0, 100_000.0), "again", lab.clock())
    limiter.release(lab.clock())
    limiter.release(lab.clock())
    assert not limiter.switch.on
    assert lab.publish(5000) == 5000


@pytest.mark.seed("S5-034")
def test_exempt_principals_are_not_throttled() -> None:
    lab = throttled()
    exempt = Gate(
        lab.state().topic,
        lab.gates["t0"].policies,
        lab.state(),
        [],
        None,
        lab.sink,
        lab.gates["t0"]._faults,
        exempt=True,
    )
    op = Operation(OperationKind.PUBLISH, "t0", messages=1, bytes=10, largest=10)
    assert exempt.publish(op, lab.clock()) is None
    assert lab.publish(1) == 0


def test_its_bucket_is_one_for_all_where_limits_are_shared_and_its_own_for_a_target_of_its_own() -> None:
    state = TopicState(TopicName("t", ""), 0, BrokerState(LeasedBuckets("broker", 200_000_000)))
    limiter = AdaptiveLimiter(state, EffectivePolicies("t", 1, {}, {}))
    limiter.limit(100, 0, (200.0, 0.0), "a test", 0)
    shared = limiter.queue.bucket
    assert isinstance(shared, LeasedBucket)
    assert shared.name == "broker|t|adaptive_publish_throttling"

    limiter.limit(50, 0, (100.0, 0.0), "a test", 0, alone=True)
    own = limiter.queue.bucket
    assert (type(own), own.messages_per_s, own.message_balance) == (DualBucket, 50, 0)
    assert shared.messages_per_s == 0  # nothing is leased for it any more

    limiter.limit(100, 0, (200.0, 0.0), "a test", 0)
    assert limiter.queue.bucket is shared
    assert (shared.messages_per_s, shared.message_balance, own.messages_per_s) == (100, 0, 0)
