"""What each fault decides, by a manual clock."""

import pytest
from tests.chaos.lab import Lab, dispatch, publish

from sluicegate.model import Action, Breakage, Decision, Operation, OperationKind, Outcome

MS = 1_000_000
SECOND = 1_000 * MS


def hit(decision: Decision | None) -> bool:
    return decision is not None


def pattern(lab: Lab, count: int = 40) -> list[bool]:
    return [hit(lab.gate.publish(publish(), lab.clock.now_ns)) for _ in range(count)]


@pytest.mark.parametrize(
    ("policy", "outcome", "breaks"),
    [
        ("chaos_refusal", Outcome.LIMIT_REACHED, None),
        ("chaos_kill", Outcome.PRECONDITION, Breakage.CONNECTION),
        ("chaos_corrupt", Outcome.PRECONDITION, Breakage.RESPONSE),
    ],
)
def test_a_publish_is_rejected_with_a_text_that_says_why(
    policy: str, outcome: Outcome, breaks: Breakage | None
) -> None:
    lab = Lab(**{policy: "100%"})
    decision = lab.gate.publish(publish(), lab.clock.now_ns)
    assert decision is not None
    (reason,) = decision.reasons
    assert (decision.action, reason.policy, reason.outcome) == (Action.REJECT, policy, outcome)
    assert decision.breaks is breaks
    assert f"injected by {policy}" in reason.text
    assert "ends at 1970-01-01T01:00:00Z" in reason.text
    assert [(each.action, each.reasons[0].policy) for each in lab.sink.decisions] == [(Action.REJECT, policy)]


def test_a_delivery_is_killed_but_neither_refused_nor_corrupted() -> None:
    lab = Lab(chaos_kill="100%")
    decision = lab.gate.dispatch(dispatch(), lab.clock.now_ns)
    assert decision is not None
    assert decision.breaks is Breakage.CONNECTION
    other = Lab(chaos_refusal="100%", chaos_corrupt="100%")
    assert other.gate.dispatch(dispatch(), other.clock.now_ns) is None


def test_a_publish_without_a_response_is_not_corrupted() -> None:
    lab = Lab(chaos_corrupt="100%")
    assert lab.gate.publish(publish(reliable=False), lab.clock.now_ns) is None


@pytest.mark.parametrize("make", [publish, dispatch])
def test_only_what_nobody_was_promised_is_dropped(make: type[Operation]) -> None:
    lab = Lab(chaos_drop="100%")
    dropped = lab.gate.decide(make(reliable=False), lab.clock.now_ns)  # type: ignore[call-arg]
    assert dropped is not None
    assert (dropped.action, dropped.reasons[0].policy) == (Action.DROP, "chaos_drop")
    assert lab.gate.decide(make(reliable=True), lab.clock.now_ns) is None  # type: ignore[call-arg]


def test_latency_holds_each_operation_for_its_time_once() -> None:
    lab = Lab(chaos_latency="2500ms")
    op = publish()
    waits = []
    while (decision := lab.gate.publish(op, lab.clock.now_ns)) is not None:
        assert (decision.action, decision.reasons[0].policy) == (Action.DELAY, "chaos_latency")
        waits.append(decision.delay_ns)
        lab.clock.advance(seconds=decision.delay_ns / SECOND)
    assert waits == [SECOND, SECOND, SECOND // 2]
    assert len(lab.sink.decisions) == 1
    again = lab.gate.publish(op, lab.clock.now_ns)
    assert again is not None
    assert again.delay_ns == SECOND


def test_an_operation_is_drawn_once_however_often_it_asks() -> None:
    lab = Lab(chaos_kill="50%", chaos_latency="5s", chaos_seed=3)
    op = publish()
    while hit(decision := lab.gate.publish(op, lab.clock.now_ns)) and decision.breaks is not None:  # type: ignore[union-attr]
        pass
    for _ in range(40):
        lab.clock.advance(seconds=0.1)
        held = lab.gate.publish(op, lab.clock.now_ns)
        assert held is not None
        assert held.action is Action.DELAY


def test_a_slow_consumer_takes_its_rate_and_no_more() -> None:
    lab = Lab(chaos_slow_consumer="10/s", max_dispatch_rate="100/s")
    passed = 0
    op = dispatch()
    for _ in range(300):  # three seconds, in steps of 10 ms
        decision = lab.gate.dispatch(op, lab.clock.now_ns)
        passed += decision is None
        assert decision is None or decision.reasons[0].policy == "chaos_slow_consumer"
        lab.clock.advance(seconds=0.01)
    assert passed == 10 + 29  # the burst of a second, and what has come since


def test_a_share_of_operations_is_hit() -> None:
    lab = Lab(chaos_refusal="10%", chaos_seed=1)
    assert 60 < sum(pattern(lab, 1_000)) < 140


def test_a_seed_gives_the_same_faults_again() -> None:
    first, second = (pattern(Lab(chaos_refusal="30%", chaos_seed=7)) for _ in range(2))
    other = pattern(Lab(chaos_refusal="30%", chaos_seed=8))
    assert first == second != other
    assert pattern(Lab(chaos_kill="30%", chaos_seed=7)) != first


def test_chances_go_on_where_policies_change() -> None:
    whole = pattern(Lab(chaos_refusal="30%", chaos_seed=7), 40)
    lab = Lab(chaos_refusal="30%", chaos_seed=7)
    begun = pattern(lab, 20)
    lab.gate = lab.gate_of({"chaos_refusal": "30%", "chaos_seed": 7, "max_publish_rate": "1000/s"})
    assert begun + pattern(lab, 20) == whole


def test_all_faults_end_by_themselves() -> None:
    lab = Lab(
        chaos_latency="1h",
        chaos_kill="100%",
        chaos_refusal="100%",
        chaos_corrupt="100%",
        chaos_drop="100%",
        chaos_slow_consumer="1/min",
    )
    lab.clock.advance(seconds=3_598)
    assert hit(lab.gate.publish(publish(), lab.clock.now_ns))
    lab.clock.advance(seconds=1)
    for reliable in (True, False):
        for _ in range(5):
            assert lab.gate.publish(publish(reliable=reliable), lab.clock.now_ns) is None
            assert lab.gate.dispatch(dispatch(reliable=reliable), lab.clock.now_ns) is None


def test_what_is_held_passes_at_the_end() -> None:
    lab = Lab(chaos_latency="2h")
    op = publish()
    assert hit(lab.gate.publish(op, lab.clock.now_ns))
    lab.clock.advance(seconds=3_599)
    assert lab.gate.publish(op, lab.clock.now_ns) is None


@pytest.mark.parametrize("until", [None, "1970-01-01T00:00:00Z"])
def test_without_an_end_or_after_it_there_is_no_check(until: str | None) -> None:
    lab = Lab(chaos_kill="100%", chaos_until=until)
    assert not lab.gate.asks(OperationKind.DISPATCH)


def test_exempt_principals_are_spared() -> None:
    lab = Lab()
    gate = lab.gate_of({"chaos_kill": "100%", "chaos_latency": "1s"}, exempt=True)
    assert gate.publish(publish(), lab.clock.now_ns) is None


def test_faults_hit_the_principals_of_a_canary() -> None:
    lab = Lab(**{"chaos_kill": "100%", "mode.chaos_kill": "canary principals User:test"})
    op = publish()
    assert lab.gate.publish(op, lab.clock.now_ns) is None
    op.principal = "User:test"
    assert hit(lab.gate.publish(op, lab.clock.now_ns))
