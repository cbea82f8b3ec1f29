"""Gates: order of checks, what is recorded, attachments, observe-only, exemption."""

from collections.abc import Mapping
from time import perf_counter_ns

import pytest
from tests.engine.lab import TOPIC, KeepingSink, MakeGate

from sluicegate.engine.check import Check, CheckCall, Stage
from sluicegate.engine.compiling import compile_gate
from sluicegate.engine.delivery_time import DelayRule
from sluicegate.engine.gate import GateFaults, allowed
from sluicegate.engine.state import TopicState
from sluicegate.engine.wait_queue import Waiter
from sluicegate.model import (
    Action,
    Decision,
    EffectivePolicies,
    Level,
    Operation,
    OperationKind,
    Outcome,
    Provenance,
    Reason,
    Source,
)

Kind = OperationKind
ALL_KINDS = tuple(OperationKind)


def operation(kind: OperationKind = Kind.PUBLISH, **fields: object) -> Operation:
    op = Operation(kind, "/default/orders", client="a", messages=1, bytes=100, largest=100, reliable=False)
    for name, value in fields.items():
        setattr(op, name, value)
    return op


def decision(action: Action = Action.REJECT, policy: str = "mine", delay_ns: int = 0) -> Decision:
    least_ns = int(action is Action.DELAY)
    return Decision(action, (Reason(policy, Outcome.LIMIT_REACHED, "no"),), delay_ns=max(least_ns, delay_ns))


def answering(*answers: Decision | None) -> CheckCall:
    """A check that gives these answers in turn, the last one for good."""
    left = list(answers)

    def call(op: Operation, now_ns: int) -> Decision | None:
        return left.pop(0) if len(left) > 1 else left[0]

    return call


def check(call: CheckCall, policy: str = "mine", stage: Stage = Stage.CUSTOM, *kinds: OperationKind) -> Check:
    return Check(policy, kinds or ALL_KINDS, call, stage)


@pytest.mark.parametrize("others", [0, 1, 2, 3, 4])
def test_a_size_within_the_first_check_skips_that_call_alone(
    make_gate: MakeGate, sink: KeepingSink, others: int
) -> None:
    asked: list[str] = []

    def noting(name: str, answer: Decision | None = None) -> CheckCall:
        def call(op: Operation, now_ns: int) -> Decision | None:
            asked.append(name)
            return answer

        return call

    size = Check("size", (Kind.PUBLISH,), noting("size", decision()), Stage.SIZE, largest=100)
    gate = make_gate([size, *(check(noting(f"other {number}")) for number in range(others))])

    assert gate.publish(operation(largest=100), 0) is None
    assert asked == [f"other {number}" for number in range(others)]
    assert sink.allows == ["PUBLISH"]
    asked.clear()
    refused = gate.publish(operation(largest=101), 0)
    assert refused is not None
    assert refused.action is Action.REJECT
    assert asked == ["size"]


@pytest.mark.parametrize("kind", [Kind.PUBLISH, Kind.DISPATCH, Kind.ACKNOWLEDGE, Kind.CONNECT])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 4])
def test_checks_run_by_stage_until_one_refuses(
    make_gate: MakeGate, sink: KeepingSink, kind: OperationKind, count: int
) -> None:
    asked: list[str] = []

    def noting(stage: Stage) -> CheckCall:
        def call(op: Operation, now_ns: int) -> None:
            asked.append(stage.name)

        return call

    stages = list(reversed(Stage))[:count]
    gate = make_gate([check(noting(stage), stage=stage) for stage in stages])

    assert gate.decide(operation(kind), 0) is None
    assert asked == [stage.name for stage in sorted(stages)]
    assert sink.allows == [kind.name]
    assert sink.decisions == []


@pytest.mark.parametrize("others", [0, 1, 2])
def test_a_refusal_is_stamped_recorded_and_final(
    make_gate: MakeGate, sink: KeepingSink, state: TopicState, others: int
) -> None:
    later: list[int] = []
    checks = [check(answering(None), stage=Stage.SIZE) for _ in range(others)]
    checks.append(check(answering(decision())))
    checks.append(check(lambda op, now_ns: later.append(now_ns), stage=Stage.RATE))
    gate = make_gate(checks)

    refused = gate.publish(operation(), 0)

    assert refused is not None
    assert (refused.action, refused.id, refused.policy_version) == (Action.REJECT, "d1", 7)
    assert sink.decisions == [refused]
    assert later == []
    assert (state.rejected, state.allowed_ops) == (1, 0)
    assert state.violations == {("mine", "reject", "limit_reached"): 1}


def test_counters_count_allowed_traffic(make_gate: MakeGate, state: TopicState) -> None:
    gate = make_gate([])

    for size in (0, 1, 1023, 1024):
        assert gate.publish(operation(messages=1, bytes=size + 70, largest=size), 0) is None
    assert gate.publish(operation(messages=4, bytes=4_096, largest=1_024), 0) is None
    assert gate.dispatch(operation(Kind.DISPATCH, messages=1, bytes=10), 0) is None
    assert gate.dispatch(operation(Kind.DISPATCH, messages=2, bytes=20), 0) is None

    assert (state.allowed_ops, state.allowed_messages, state.allowed_bytes) == (7, 8, 2_048 + 4 * 70 + 4_096)
    assert (state.dispatched_messages, state.dispatched_bytes) == (3, 30)
    assert [(slot, n) for slot, n in enumerate(state.size_counts) if n] == [(0, 1), (1, 1), (10, 1), (11, 1)]
    assert [(slot, n) for slot, n in enumerate(state.batch_counts) if n] == [(13, 1)]
    assert (state.alone_bytes, state.batched_messages) == (2_048, 4)


def test_judge_counts_as_the_compiled_checks_do(make_gate: MakeGate, state: TopicState) -> None:
    gate = make_gate([check(answering(None))])

    gate.publish(operation(), 0)
    fast = (state.allowed_ops, state.allowed_messages, state.allowed_bytes, list(state.size_counts))
    gate.judge(operation(), 0)

    assert (state.allowed_ops, state.allowed_messages, state.allowed_bytes) == tuple(2 * n for n in fast[:3])
    assert state.size_counts == [2 * count for count in fast[3]]


@pytest.mark.parametrize("kind", [Kind.PUBLISH, Kind.DISPATCH, Kind.ATTACH_PRODUCER])
def test_a_held_operation_is_recorded_once_and_then_allowed(
    make_gate: MakeGate, sink: KeepingSink, state: TopicState, kind: OperationKind
) -> None:
    delay = decision(Action.DELAY, delay_ns=500)
    gate = make_gate([check(answering(delay, delay, None))])
    op = operation(kind, producer="p")

    answers = [gate.decide(op, now_ns) for now_ns in (0, 500)]
    assert isinstance(op.waiter, Waiter)
    assert [(held.id, held.delay_ns) for held in answers if held] == [("d1", 500)] * 2
    assert state.delayed == 1

    assert gate.decide(op, 1000) is None
    assert getattr(op, "waiter", op) is None
    assert len(sink.decisions) == 1
    assert sink.allows == [kind.name]


def test_a_held_operation_that_is_then_refused_is_recorded_twice(
    make_gate: MakeGate, sink: KeepingSink
) -> None:
    gate = make_gate([check(answering(decision(Action.DELAY), decision(Action.DROP)))])
    op = operation()

    gate.publish(op, 0)
    dropped = gate.publish(op, 1)

    assert [found.action for found in sink.decisions] == [Action.DELAY, Action.DROP]
    assert dropped is not None
    assert dropped.id == "d2"
    assert op.waiter is None
    assert gate.state.dropped == 1


def test_abandon_leaves_the_queue_without_a_charge(make_gate: MakeGate, state: TopicState) -> None:
    line = state.limiter("rate", 10, 0, 1.0, 0)
    line.bucket.charge(10, 0, 0)

    def limited(op: Operation, now_ns: int) -> Decision | None:
        wait = line.take(op, now_ns)
        return decision(Action.DELAY, delay_ns=wait) if wait else None

    gate = make_gate([check(limited, stage=Stage.RATE)])
    op = operation()
    assert gate.publish(op, 0) is not None
    assert line.waiting == 1

    gate.abandon(op, 0)

    assert op.waiter is None
    assert line.waiting == 0
    assert line.bucket.balance(0)[0] == 0


def test_lifting_a_limit_releases_its_waiters(make_gate: MakeGate, state: TopicState) -> None:
    line = state.limiter("rate", 10, 0, 1.0, 0)
    line.bucket.charge(10, 0, 0)
    op = operation()
    limited = make_gate([check(lambda op, now_ns: decision(Action.DELAY) if line.take(op, now_ns) else None)])
    assert limited.publish(op, 0) is not None
    assert line.waiting == 1

    assert make_gate([]).publish(op, 1) is None
    assert line.waiting == 0
    assert op.waiter is None
    assert line.waiting == 0


def test_allow_and_rewrite_do_not_end_the_checks(
    make_gate: MakeGate, sink: KeepingSink, state: TopicState
) -> None:
    rewrite = decision(Action.REWRITE)
    gate = make_gate(
        [
            check(answering(Decision(Action.ALLOW, ()))),
            check(answering(rewrite)),
            check(answering(None, decision())),
        ]
    )

    passed = gate.publish(operation(), 0)
    refused = gate.publish(operation(), 0)

    assert passed is not None
    assert refused is not None
    assert (passed.action, refused.action) == (Action.REWRITE, Action.REJECT)
    assert sink.allows == []
    assert (state.allowed_ops, state.rejected) == (1, 1)


@pytest.mark.seed("S1-144")
@pytest.mark.parametrize(
    ("values", "observe_only"), [({"mode.mine": "observe"}, False), ({}, True)], ids=["policy", "gate"]
)
@pytest.mark.parametrize("action", [Action.REJECT, Action.DELAY, Action.DROP])
def test_observed_decisions_are_recorded_and_not_applied(
    make_gate: MakeGate,
    sink: KeepingSink,
    state: TopicState,
    values: Mapping[str, bool],
    observe_only: bool,
    action: Action,
) -> None:
    later = []
    gate = make_gate(
        [
            check(answering(decision(action)), "mine", Stage.COUNT),
            check(lambda op, now_ns: later.append(op), "other", Stage.RATE),
        ],
        values,
        observe_only=observe_only,
    )
    op = operation()

    assert gate.publish(op, 0) is None
    assert op.waiter is None
    assert later == [op]
    assert [found.observed for found in sink.decisions] == [True]
    assert sink.allows == ["PUBLISH"]
    assert (state.observed, state.allowed_ops) == (1, 1)
    assert state.violations == {("mine", f"would_{action}", "limit_reached"): 1}


def test_observing_one_policy_does_not_disable_the_others(make_gate: MakeGate, sink: KeepingSink) -> None:
    gate = make_gate(
        [
            check(answering(decision(policy="mine")), "mine"),
            check(answering(decision(Action.DELAY, "other")), "other"),
        ],
        {"mode.mine": "observe"},
    )
    op = operation()

    for now_ns in range(3):
        held = gate.publish(op, now_ns)
        assert held is not None
        assert held.reasons[0].policy == "other"
    # Asked three times as it is held, observed and held once.
    assert [found.observed for found in sink.decisions] == [True, False]


def test_attachments_are_committed_when_allowed_or_observed(make_gate: MakeGate, state: TopicState) -> None:
    producer = operation(Kind.ATTACH_PRODUCER, producer="p")
    subscription = operation(Kind.CREATE_SUBSCRIPTION, subscription="s")
    consumer = operation(Kind.ATTACH_CONSUMER, subscription="s", consumer="c")
    refusing = [check(answering(decision()))]

    for op in (producer, subscription, consumer):
        assert make_gate(refusing).decide(op, 5) is not None
    assert (len(state.producers), state.subscription_count, state.consumer_count) == (0, 0, 0)

    observing = make_gate(refusing, observe_only=True)
    for op in (producer, subscription, consumer):
        assert observing.decide(op, 5) is None
    assert (len(state.producers), state.subscription_count, state.consumer_count) == (1, 1, 1)
    assert state.subscription("s").created_ns == 5


@pytest.mark.seed("S1-043")
def test_detach_releases_by_connection(make_gate: MakeGate, state: TopicState) -> None:
    gate = make_gate([])
    for client in ("a", "b"):
        gate.decide(operation(Kind.ATTACH_PRODUCER, producer="p", client=client), 0)
        gate.decide(operation(Kind.ATTACH_CONSUMER, subscription="s", consumer="c", client=client), 0)
    state.subscription("s").unacked["c"] = 5

    gate.detach(operation(Kind.DETACH, producer="p", client="a"))
    gate.detach(operation(Kind.DETACH, subscription="s", consumer="c", client="a"))
    assert (len(state.producers), state.consumer_count) == (1, 1)
    assert state.subscription("s").unacked == {"c": 5}

    gate.detach(operation(Kind.DETACH, producer="p", client="b"))
    gate.detach(operation(Kind.DETACH, subscription="s", consumer="c", client="b"))
    assert (len(state.producers), state.consumer_count) == (0, 0)
    assert state.subscription("s").unacked == {}
    # The subscription exists on the broker, whichever client consumes.
    assert state.subscription("s").exists


def test_a_subscription_refused_by_the_broker_is_removed(make_gate: MakeGate, state: TopicState) -> None:
    gate = make_gate([])
    op = operation(Kind.CREATE_SUBSCRIPTION, subscription="s")
    gate.decide(op, 0)

    gate.detach(op)

    assert state.subscription_count == 0
    gate.detach(operation(Kind.DETACH, subscription="never seen", consumer="c"))


def test_exempt_principals_skip_counts_and_rates_and_take_no_place(
    make_gate: MakeGate, sink: KeepingSink, state: TopicState
) -> None:
    refusing = answering(decision())
    stages = (Stage.COUNT, Stage.RATE, Stage.ACCOUNT)
    gate = make_gate([check(refusing, stage=stage) for stage in stages], exempt=True)

    assert gate.publish(operation(), 0) is None
    assert gate.decide(operation(Kind.ATTACH_PRODUCER, producer="p"), 0) is None
    assert gate.decide(operation(Kind.ATTACH_CONSUMER, subscription="s", consumer="c"), 0) is None
    assert gate.decide(operation(Kind.CREATE_SUBSCRIPTION, subscription="t"), 0) is None
    assert (len(state.producers), state.consumer_count) == (0, 0)
    # Yet what they make on the broker exists for all.
    assert state.subscription("t").exists
    assert gate.exempt


def test_exempt_principals_skip_further_policies_only_if_listed(make_gate: MakeGate) -> None:
    size = check(answering(decision(policy="max_message_size")), "max_message_size", Stage.SIZE)

    assert make_gate([size], exempt=True).publish(operation(), 0) is not None
    told = make_gate([size], exempt=True, exempt_policies=frozenset({"max_message_size"}))
    assert told.publish(operation(), 0) is None


def test_asks_names_the_kinds_that_are_checked(make_gate: MakeGate) -> None:
    gate = make_gate([check(answering(None), "mine", Stage.RATE, Kind.PUBLISH, Kind.CONNECT)])

    assert [kind for kind in Kind if gate.asks(kind)] == [Kind.CONNECT, Kind.PUBLISH]


def test_bookkeeping_runs_once_for_a_held_operation(make_gate: MakeGate) -> None:
    booked = []
    gate = make_gate(
        [
            check(lambda op, now_ns: booked.append(now_ns), "book", Stage.ACCOUNT),
            check(answering(decision(Action.DELAY), decision(Action.DELAY), None), "rate", Stage.RATE),
        ]
    )
    op = operation(Kind.DISPATCH)

    for now_ns in range(3):
        gate.dispatch(op, now_ns)

    assert booked == [2]


def test_methods_kept_from_a_gate_stay_valid(make_gate: MakeGate, state: TopicState) -> None:
    gate = make_gate([check(answering(None, decision(), None))])
    publish, dispatch = gate.publish, gate.dispatch

    answers = [publish(operation(), 0) for _ in range(3)]
    assert [answer is None for answer in answers] == [True, False, True]
    assert [dispatch(operation(Kind.DISPATCH), 0) for _ in range(2)] == [None, None]
    assert state.allowed_ops == 4


def test_a_gate_has_the_delay_rule_that_it_was_compiled_with(
    state: TopicState, sink: KeepingSink, faults: GateFaults
) -> None:
    rule, policies = DelayRule(5), EffectivePolicies(TOPIC.full, 7, {}, {})

    assert compile_gate(TOPIC, policies, state, [], rule, sink, faults, exempt=False).delay is rule


def test_decisions_outside_any_policy_can_be_recorded(make_gate: MakeGate, sink: KeepingSink) -> None:
    op, told = operation(), decision()

    make_gate([]).record(op, told, 5)

    assert [(one.action, one.policy_version) for one in sink.decisions] == [(told.action, 7)]
    assert sink.decided_at == [(op, 5)]


def test_a_check_that_fails_closed_names_the_level_of_its_policy(
    state: TopicState, sink: KeepingSink, faults: GateFaults
) -> None:
    def fail(op: Operation, now_ns: int) -> Decision | None:
        raise LookupError

    policies = EffectivePolicies(
        TOPIC.full, 7, {"mine": 1}, {"mine": Provenance(Level.NAMESPACE, Source.FILE, "")}
    )
    checks = [Check("mine", (Kind.PUBLISH,), fail, fail_open=False)]
    refused = compile_gate(TOPIC, policies, state, checks, None, sink, faults, exempt=False).publish(
        operation(), 0
    )

    assert refused is not None
    assert refused.reasons[0].level == "namespace"


def test_the_sampled_cost_of_a_publish_is_within_the_elapsed_time(make_gate: MakeGate) -> None:
    gate, took = make_gate([check(answering(decision()))]), list[int]()
    began = perf_counter_ns()

    gate.time_next_publish(took.append, perf_counter_ns)
    told = [gate.publish(operation(), 0) for _ in range(2)]

    assert [one.id for one in told if one is not None] == ["d1", "d2"]
    assert len(took) == 1
    assert 0 <= took[0] <= perf_counter_ns() - began


def test_a_rewrite_does_not_stop_what_has_nothing_to_rewrite() -> None:
    stops = [decision(action) for action in (Action.REJECT, Action.DELAY, Action.DROP)]
    assert [allowed(each) for each in stops] == stops
    assert allowed(decision(Action.REWRITE)) is None
    assert allowed(None) is None
