"""Switches work without compilation, factors keep their value, throttled limits keep their bound."""

import gc
import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.lab import MakeGate
from tests.engine.test_wait_queue import leave

from sluicegate.engine.bucket import SECOND_NS, DualBucket
from sluicegate.engine.check import Check, Stage
from sluicegate.engine.factors import Factor, Factors
from sluicegate.engine.shared_factors import SharedFactors
from sluicegate.engine.switch import Switch
from sluicegate.engine.throttle import PAUSE_NS, ThrottledLimit, paused, reduced
from sluicegate.model import (
    Action,
    Decision,
    EffectivePolicies,
    Operation,
    OperationKind,
    Outcome,
    Reason,
)

MS = 1_000_000


def publish(nbytes: int = 100) -> Operation:
    return Operation(OperationKind.PUBLISH, "t", messages=1, bytes=nbytes, largest=nbytes)


class Asked:
    """A check that counts its calls and answers as it is told."""

    def __init__(self, answer: Decision | None = None) -> None:
        self.calls = 0
        self.answer = answer

    def __call__(self, op: Operation, now_ns: int) -> Decision | None:
        self.calls += 1
        return self.answer


def refusal(policy: str) -> Decision:
    return Decision(Action.REJECT, (Reason(policy, Outcome.INVALID, policy),))


PUBLISH = (OperationKind.PUBLISH,)


def test_a_switched_off_check_is_not_called_and_switching_needs_no_recompilation(make_gate: MakeGate) -> None:
    switch, dynamic, always = Switch(), Asked(refusal("dynamic")), Asked()
    gate = make_gate(
        [Check("dynamic", PUBLISH, dynamic, switch=switch), Check("always", PUBLISH, always, Stage.RATE)]
    )

    assert gate.publish(publish(), 0) is None
    assert (dynamic.calls, always.calls) == (0, 1)
    switch.set(True)
    refused = gate.publish(publish(), 0)
    assert refused is not None
    assert refused.reasons[0].policy == "dynamic"
    switch.set(False)
    assert gate.judge(publish(), 0) is None
    assert (dynamic.calls, always.calls, switch.flips) == (1, 2, 2)
    assert gate.asks(OperationKind.PUBLISH)


@pytest.mark.parametrize("on", range(8))
def test_the_deciding_check_is_the_one_followed_up(make_gate: MakeGate, on: int) -> None:
    """With any of the checks before it switched off: what is observed, and what raises, is found by place."""
    switches = [Switch(bool(on & 1 << bit)) for bit in range(3)]
    before = [Asked() for _ in switches]

    def raises(op: Operation, now_ns: int) -> None:
        raise ValueError("x")

    gate = make_gate(
        [
            *(
                Check(f"p{place}", PUBLISH, call, switch=switch)
                for place, (call, switch) in enumerate(zip(before, switches, strict=True))
            ),
            Check("seen", PUBLISH, Asked(refusal("seen"))),
            Check("broken", PUBLISH, raises, fail_open=False),
        ],
        {"mode.seen": "observe"},
    )

    refused = gate.publish(publish(), 0)

    assert refused is not None
    assert refused.reasons[0].policy == "broken"
    assert [call.calls for call in before] == [int(switch.on) for switch in switches]
    assert gate.state.violations[("seen", "would_reject", "invalid")] == 1


def test_a_size_check_stays_first_whichever_checks_are_switched(make_gate: MakeGate) -> None:
    size, dynamic, switch = Asked(refusal("size")), Asked(), Switch()
    gate = make_gate(
        [
            Check("dynamic", PUBLISH, dynamic, Stage.RATE, switch=switch),
            Check("size", PUBLISH, size, Stage.SIZE, largest=1000),
        ]
    )
    switch.set(True)

    assert gate.publish(publish(1000), 0) is None
    assert gate.publish(publish(1001), 0) is not None
    assert (size.calls, dynamic.calls) == (1, 1)


def test_switches_forget_a_dropped_gate(make_gate: MakeGate) -> None:
    switch = Switch()
    gate = make_gate([Check("dynamic", PUBLISH, Asked(), switch=switch)])
    assert len(switch._gates or ()) == 1
    del gate
    gc.collect()

    assert len(switch._gates or ()) == 0
    switch.set(True)


def test_a_check_that_takes_tokens_runs_last_in_its_stage(make_gate: MakeGate) -> None:
    order: list[str] = []

    def named(name: str) -> Check:
        def call(op: Operation, now_ns: int) -> None:
            order.append(name)

        stage = Stage.ACCOUNT if name == "account" else Stage.RATE
        return Check(name, PUBLISH, call, stage, takes=name == "takes")

    gate = make_gate([named("takes"), named("account"), named("looks")])
    gate.publish(publish(), 0)

    assert order == ["looks", "takes", "account"]


@pytest.mark.seed("S4-002", "S4-006", "S4-008")
@pytest.mark.parametrize("value", [-0.01, 1.01, float("nan"), float("inf"), -float("inf")])
def test_a_factor_outside_0_to_1_changes_nothing(value: float) -> None:
    factor = Factor("disk", "Wait.")
    factor.set(0.5, "half full")

    with pytest.raises(ValueError, match=r"disk cannot be .*expected 0\.0 to 1\.0"):
        factor.set(value, "nonsense", known=False)

    assert (factor.value, factor.why, factor.known, factor.changes) == (0.5, "half full", True, 1)


@pytest.mark.seed("S4-002", "X-01")
def test_a_factor_restricts_below_1_and_0_is_not_unlimited() -> None:
    factor = Factor("disk", lambda: "Wait.")
    assert (factor.value, factor.known, factor.switch.on, factor.text) == (1.0, True, False, "Wait.")

    for value, on in ((0.99, True), (0.0, True), (1.0, False), (1, False)):
        factor.set(value, "")
        assert factor.switch.on is on

    factor.set(0.0, "volume 1 is full", known=False)
    decision = paused(factor, "orders")
    assert (decision.action, decision.factor, decision.delay_ns) == (Action.DELAY, 0.0, PAUSE_NS)
    assert decision.reasons[0].policy == "disk"
    assert decision.reasons[0].outcome is Outcome.PRECONDITION
    assert decision.text == "Publishing is paused by disk for topic orders: volume 1 is full. Wait."
    factor.set(0.0, "")
    assert paused(factor, "orders").text == "Publishing is paused by disk for topic orders. Wait."


def test_a_factor_holds_even_where_its_advice_fails() -> None:
    def fails() -> str:
        raise KeyError("state")

    factor = Factor("disk", fails)
    factor.set(0.0, "volume 1 is full")

    decision = paused(factor, "orders")

    assert decision.action is Action.DELAY
    assert decision.text.endswith("volume 1 is full. There is no advice (KeyError).")


@pytest.mark.seed("X-04", "X-07")
def test_the_smallest_factor_leaves_out_observed_ones() -> None:
    low, high = Factor("low", ""), Factor("high", "")
    factors = Factors([low, high])
    low.set(0.2, "")
    high.set(0.6, "")
    observed = EffectivePolicies("t", 1, {"mode.low": "observe"}, {})

    assert (factors.minimum(), factors.minimum(observed)) == (0.2, 0.6)
    assert factors.minimum(EffectivePolicies("t", 1, {}, {}, observe_only=True)) == 1.0
    assert Factors().minimum() == 1.0
    assert factors.get("low") is low
    with pytest.raises(ValueError, match="already"):
        factors.add(Factor("low", ""))


def test_the_lowest_recent_value_is_known_until_it_is_forgotten() -> None:
    factor = Factor("disk", "")
    assert factor.lowest_since(0) == 1.0
    for value in (0.5, 0.1, 0.9):
        factor.set(value, "")
    assert [factor.lowest_since(changes) for changes in range(4)] == [0.1, 0.1, 0.1, 0.9]
    for step in range(200):
        factor.set(0.5 + step % 2 / 10, "")
    assert factor.lowest_since(0) == 0.0


@pytest.mark.seed("S4-004")
def test_a_reduced_limit_reports_factor_rates_and_reason() -> None:
    factor = Factor("disk", "Free some space.")
    factor.set(0.3, "volume 1 is 95 % full")
    limit = ThrottledLimit(factor, DualBucket(0, 1000, 1.0, 0))
    assert limit.ready(publish(300), 0) == 0
    limit.charge(publish(300), 0)
    op = publish(30)

    decision = reduced(limit, op, "topic t", limit.ready(op, 0), 0)

    assert (decision.action, decision.factor) == (Action.DELAY, 0.3)
    assert decision.delay_ns == pytest.approx(100 * MS, abs=2)
    assert decision.text == (
        "Publish rate reduced to 30% by disk for topic t: volume 1 is 95 % full. "
        "Current: 330 bytes/s, Limit: 300 bytes/s. Free some space."
    )


def test_a_limit_follows_a_factor_that_was_0_between_two_looks() -> None:
    factor = Factor("disk", "")
    base = DualBucket(0, 1000, 1.0, 0)
    factor.set(0.5, "")
    limit = ThrottledLimit(factor, base)
    assert limit.ready(publish(500), 0) == 0
    limit.charge(publish(500), 0)

    factor.set(0.0, "")
    factor.set(0.5, "")
    limit.follow(SECOND_NS)

    assert limit.bucket.balance(SECOND_NS)[1] == pytest.approx(0)
    assert limit.bucket.balance(2 * SECOND_NS)[1] == pytest.approx(500)


def test_a_factor_that_comes_and_goes_lets_no_burst_through() -> None:
    factor = Factor("disk", "")
    base = DualBucket(0, 1000, 1.0, 0)
    limit = ThrottledLimit(factor, base)
    now_ns = passed = 0
    for _ in range(50):
        factor.set(0.5, "")
        while limit.ready(op := publish(50), now_ns) == 0:
            limit.charge(op, now_ns)
            base.charge(0, 50, now_ns)
            passed += 50
        leave(op)
        factor.set(1.0, "")
        now_ns += 20 * MS

    assert passed <= 500 + 0.5 * 1000 * now_ns / SECOND_NS


@settings(max_examples=150, deadline=None)
@given(
    play=st.lists(
        st.tuples(st.integers(0, 400), st.sampled_from([0.0, 0.05, 0.25, 0.5, 0.9, 1.0]), st.integers(0, 3)),
        min_size=1,
        max_size=25,
    ),
    sizes=st.lists(st.integers(1, 1500), min_size=1, max_size=5),
    burst=st.sampled_from([0.2, 1.0, 2.0]),
)
def test_each_window_admits_at_most_the_integral_of_the_factor_and_a_burst(
    play: Sequence[tuple[int, float, int]], sizes: Sequence[int], burst: float
) -> None:
    rate = 2000
    factor = Factor("disk", "")
    base = DualBucket(0, rate, burst, 0)
    limit = ThrottledLimit(factor, base)
    now_ns, number = 0, 0
    values = [(0, 1.0)]
    admitted: list[tuple[int, int]] = []
    for step_ms, value, asks in play:
        now_ns += step_ms * MS
        factor.set(value, "")
        values.append((now_ns, value))
        for _ in range(asks * 3):
            now_ns += 7 * MS
            op = publish(sizes[number % len(sizes)])
            number += 1
            if base.wait(1, op.bytes, now_ns):
                continue
            if factor.value == 0 or (factor.value < 1 and limit.ready(op, now_ns)):
                leave(op)
                continue
            if factor.value < 1:
                limit.charge(op, now_ns)
            base.charge(1, op.bytes, now_ns)
            admitted.append((now_ns, op.bytes))

    values.append((now_ns + 1, values[-1][1]))
    for first in range(len(admitted)):
        total = 0
        for last in range(first, len(admitted)):
            begin, end = admitted[first][0], admitted[last][0]
            total += admitted[last][1]
            inside = [
                (min(end, later) - max(begin, since), value)
                for (since, value), (later, _) in pairwise(values)
                if later >= begin and since <= end
            ]
            most = max(value for _, value in inside)
            if most == 1.0:
                break
            bound = sum(rate * value * max(0, lasting) / SECOND_NS for lasting, value in inside)
            # A need above the bucket passes when that is full, also when it has shrunk.
            least = min((value for _, value in inside if value), default=0.0)
            debt = max(0.0, max(sizes) - rate * least * burst)
            assert total <= bound + rate * most * burst + debt + 1e-6


@pytest.mark.parametrize("value", ["0.5", None, math.nan, math.inf, -0.1, 1.1, 10**400, object()])
def test_an_invalid_share_leaves_a_factor_unchanged(value: Any) -> None:
    factor = Factor("tank", "Wait.")
    factor.set(0.5, "half full")
    with pytest.raises((ValueError, OverflowError)):
        factor.set(value, "broken")
    assert (factor.value, factor.why) == (0.5, "half full")


def test_a_reason_that_is_not_text_leaves_a_factor_unchanged() -> None:
    factor = Factor("tank", "Wait.")
    why: Any = object()
    with pytest.raises(ValueError, match="expected text"):
        factor.set(0.5, why)
    assert (factor.value, factor.why) == (1.0, "")


def test_advice_that_is_not_text_is_shown_as_text() -> None:
    give: Any = lambda: 5  # noqa: E731 - it has no name to tell
    assert Factor("tank", give).text == "There is no advice (5)."


def test_a_reduced_limit_reports_the_wait_without_queueing() -> None:
    factor = Factor("disk", "")
    factor.set(0.5, "")
    limit = ThrottledLimit(factor, DualBucket(10, 1000, 1.0, 0))

    assert limit.wait_outside(publish(500), 0) == 0
    limit.charge(publish(500), 0)
    assert limit.wait_outside(publish(50), 0) == pytest.approx(100 * MS, abs=2)
    assert limit.wait_outside(publish(50), 60 * MS) == pytest.approx(40 * MS, abs=2)
    limit.bucket.charge(4, 0, 0)
    assert limit.wait_outside(publish(0), 0) == pytest.approx(200 * MS, abs=2)  # for its one message
    assert limit.queue.waiting == 0


def test_a_wait_at_a_reduced_limit_uses_the_current_factor() -> None:
    factor = Factor("disk", "")
    factor.set(0.5, "")
    limit = ThrottledLimit(factor, DualBucket(0, 1000, 1.0, 0))
    limit.charge(publish(0), 0)
    limit.follow(0)

    factor.set(0.1, "")

    assert limit.wait_outside(publish(100), 0) == 0
    limit.charge(publish(100), 0)
    assert limit.wait_outside(publish(100), 0) == pytest.approx(1000 * MS, abs=2)


def test_the_reason_of_a_reduced_limit_has_rate_and_limit_as_numbers() -> None:
    factor = Factor("disk", "")
    factor.set(0.5, "")
    limit = ThrottledLimit(factor, DualBucket(0, 1000, 1.0, 0))
    limit.follow(0)
    limit.charge(publish(500), 0)

    reason = reduced(limit, publish(50), "topic t", 5, 0).reasons[0]

    assert (reason.policy, reason.current, reason.limit) == ("disk", 550, 500)


def test_a_factor_without_a_name_is_refused_with_its_repr() -> None:
    with pytest.raises(ValueError, match="a factor has name '', expected text such as 'my_factor'"):
        Factors([Factor("", "")])


@pytest.mark.parametrize(
    ("value", "why", "told"),
    [
        (2.0, "", "factor disk cannot be 2.0, expected 0.0 to 1.0"),
        (0.5, 7, "factor disk has reason 7, expected text"),
    ],
)
def test_an_error_shows_the_invalid_factor(value: float, why: Any, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        Factor("disk", "").set(value, why)


# -- factors that one worker computes for all ----------------------------------------------------------


@given(
    st.lists(st.tuples(st.floats(0, 1), st.text(), st.booleans()), min_size=1, max_size=4),
)
def test_shared_factors_are_taken_over_as_they_are(news: list[tuple[float, str, bool]]) -> None:
    ours, theirs = ([Factor(f"f{index}", "Wait.") for index in range(len(news))] for _ in range(2))
    for factor, (value, why, known) in zip(ours, news, strict=True):
        factor.set(value, why, known=known)
    calls: list[Callable[[], None]] = []
    SharedFactors(theirs, calls.append).take(SharedFactors(ours, calls.append).findings(), 3.0)
    assert [each.value for each in theirs] == [1.0] * len(news), "it is done by the thread of the gates"
    [call] = calls
    call()
    assert [(each.value, each.why, each.known) for each in theirs] == news


@pytest.mark.parametrize(
    "found",
    ["", "{", "1", "[]", '{"f": 1}', '{"f": []}', '{"f": ["1", "", true]}', '{"f": [2, "", true]}',
     '{"f": [NaN, "", true]}', '{"f": [0.5, null, true]}'],
)  # fmt: skip
def test_shared_factors_that_cannot_be_read_change_nothing(found: str) -> None:
    factor = Factor("f", "Wait.")
    factor.set(0.5, "before")
    with pytest.raises(ValueError):  # noqa: PT011 - of many texts
        SharedFactors([factor], lambda call: call()).take(found, 0.0)
    assert (factor.value, factor.why) == (0.5, "before")


def test_a_shared_factor_that_the_leader_does_not_have_stays() -> None:
    factor = Factor("f", "Wait.")
    factor.set(0.5, "before")
    SharedFactors([factor], lambda call: call()).take('{"g": [0.1, "", true]}', 0.0)
    assert factor.value == 0.5
