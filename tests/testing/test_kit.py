"""The kit for authors of plugins."""

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pluggy
import pytest

from sluicegate.api import (
    Action,
    Check,
    Decision,
    Factor,
    GateFaults,
    Operation,
    OperationKind,
    Outcome,
    Quota,
    Reason,
    TopicName,
    TopicState,
    hookimpl,
)
from sluicegate.testing import (
    ManualClock,
    ManualContext,
    PluginFaultError,
    RecordingSink,
    build_gate,
    load_plugin,
    plugin_manager,
)
from sluicegate.testing.fixtures import MakeGate, make_gate, manual_clock, recording_sink

__all__ = ["make_gate", "manual_clock", "recording_sink"]


def publish(nbytes: int = 10, largest: int = 10) -> Operation:
    return Operation(OperationKind.PUBLISH, "orders.eu", messages=1, bytes=nbytes, largest=largest)


class NoOddSizes:
    """A plugin as an object: refuses messages of odd size."""

    @hookimpl
    def sluicegate_policy_checks(self, topic: TopicName) -> list[Check]:
        def check(op: Operation, now_ns: int) -> Decision | None:
            if op.bytes < 0:
                raise ValueError("negative")
            if op.bytes % 2 == 0:
                return None
            return Decision(Action.REJECT, (Reason("odd", Outcome.INVALID, f"odd size on {topic.full}"),))

        return [Check("odd", (OperationKind.PUBLISH,), check)]


def test_a_clock_moves_only_when_told_and_never_back() -> None:
    clock = ManualClock(5)

    assert clock() == 5
    assert clock.advance(1.5, ms=2, ns=3) == clock() == 1_502_000_008
    with pytest.raises(ValueError, match="time cannot go back by 1000000 ns, expected 0 or more"):
        clock.advance(ms=-1)


def test_a_gate_enforces_policies_written_as_in_the_file(
    make_gate: MakeGate, manual_clock: ManualClock, recording_sink: RecordingSink
) -> None:
    gate = make_gate({"max_publish_rate_msg": "2/s", "on_limit.max_publish_rate": "reject"})

    outcomes = [gate.publish(publish(), manual_clock()) for _ in range(3)]
    assert [decision and decision.action for decision in outcomes] == [None, None, Action.REJECT]
    manual_clock.advance(0.5)
    assert gate.publish(publish(), manual_clock()) is None

    assert [decision.id for decision in recording_sink.decisions] == ["test-1"]
    assert recording_sink.decisions[0].reasons[0].policy == "max_publish_rate"
    assert recording_sink.decisions[0].reasons[0].level == "topic"
    assert len(recording_sink.allows) == 3


def test_a_record_keeps_the_operation_as_it_was(recording_sink: RecordingSink) -> None:
    gate = build_gate({}, now_ns=0, sink=recording_sink)
    op = publish(nbytes=10)
    gate.publish(op, 7)
    op.bytes = 99

    [record] = recording_sink.records
    assert (record.op.bytes, record.now_ns, record.decision) == (10, 7, None)


def test_plugins_take_part_beside_the_built_in_policies_or_alone(make_gate: MakeGate) -> None:
    refused = make_gate({"max_message_size": 100}, [NoOddSizes()]).publish(publish(nbytes=11), 0)
    assert refused is not None
    assert refused.text == "odd size on orders.eu"
    too_large = make_gate({"max_message_size": 100}, [NoOddSizes()]).publish(publish(largest=200), 0)
    assert too_large is not None
    assert too_large.reasons[0].policy == "max_message_size"
    alone = make_gate({}, [NoOddSizes()], builtin=False)
    assert alone.publish(publish(largest=1 << 30), 0) is None


def test_options_of_the_gateway_apply(make_gate: MakeGate, recording_sink: RecordingSink) -> None:
    policies: dict[str, object] = {"max_producers_per_topic": 1}
    attach = [Operation(OperationKind.ATTACH_PRODUCER, "orders.eu", client=key, producer=key) for key in "ab"]

    observing = make_gate(policies, observe_only=True)
    assert [observing.decide(op, 0) for op in attach] == [None, None]
    assert recording_sink.decisions[0].observed
    exempt = make_gate(policies, exempt=True)
    assert [exempt.decide(op, 0) for op in attach] == [None, None]
    enforcing = make_gate(policies)
    assert [enforcing.decide(op, 0) is None for op in attach] == [True, False]
    again = make_gate(policies, state=enforcing.state)
    assert again.decide(attach[1], 0) is not None


def test_a_check_that_raises_is_counted_in_the_faults_given(make_gate: MakeGate) -> None:
    faults = GateFaults()
    gate = make_gate({}, [NoOddSizes()], faults=faults)

    assert gate.publish(publish(nbytes=-1), 0) is None
    assert sum(faults.counts.values()) == 1


class Giving:
    """A plugin whose hooks give what they are told to."""

    def __init__(self, checks: object = (), rule: object = None) -> None:
        self.checks, self.rule = checks, rule

    @hookimpl
    def sluicegate_policy_checks(self) -> object:
        return self.checks

    @hookimpl
    def sluicegate_delay_rule(self) -> object:
        return self.rule


def test_what_a_gateway_counts_as_a_fault_fails_a_test(make_gate: MakeGate) -> None:
    raising = make_gate({}, [NoOddSizes()])
    with pytest.raises(
        PluginFaultError, match=r"NoOddSizes.*, policy odd, topic orders.eu: ValueError: negative"
    ):
        raising.publish(publish(nbytes=-1), 0)

    truthy: Any = lambda op, now_ns: True  # noqa: E731 - it has no name to tell
    for kind in (OperationKind.PUBLISH, OperationKind.DISPATCH, OperationKind.CONNECT):
        gate = make_gate({}, [Giving([Check("mine", (kind,), truthy)])])
        with pytest.raises(
            PluginFaultError, match=r"policy mine.* a check gave True, expected None or a Decision"
        ):
            gate.decide(Operation(kind, "orders.eu"), 0)
    with pytest.raises(PluginFaultError, match=r"Giving.*: sluicegate_policy_checks gave True, expected"):
        make_gate({}, [Giving(True)])
    with pytest.raises(TypeError, match=r"no usable check, see its fields: Check\(policy='mine'"):
        Check("mine", (kind,), truthy, 2)  # type: ignore[arg-type]
    with pytest.raises(
        PluginFaultError, match=r"Giving.*: sluicegate_delay_rule gave 30000, expected None or a"
    ):
        make_gate({}, [Giving(rule=30_000)])


def test_what_a_gateway_would_not_take_is_not_taken_by_its_stand_in() -> None:
    context = ManualContext()
    with pytest.raises(ValueError, match="a Quota has rate nan"):
        Quota(math.nan)
    with pytest.raises(TypeError, match=r"gave 0\.5 in its list, expected a list"):
        context.add([0.5])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="a factor has name ''"):
        context.add([Factor("", "Wait.")])


def test_the_delay_rule_and_broker_wide_fields_are_taken(make_gate: MakeGate) -> None:
    gate = make_gate({"fixed_delivery_delay": "30s", "connection_rate_limit": "5/s"})

    assert gate.delay is not None
    assert gate.delay.fixed_ms == 30_000
    assert gate.policies.level("connection_rate_limit") == "broker"


def test_mistakes_of_the_author_are_named(tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="max_publish_rte"):
        build_gate({"max_publish_rte": 5}, now_ns=0)

    @hookimpl
    def sluicegate_policy_chekcs(topic: TopicName) -> None:
        """No such hook."""

    with pytest.raises(pluggy.PluginValidationError, match="sluicegate_policy_chekcs"):
        plugin_manager([SimpleNamespace(sluicegate_policy_chekcs=sluicegate_policy_chekcs)])

    @hookimpl
    def sluicegate_policy_checks(topik: TopicName) -> None:
        """No such argument."""

    with pytest.raises(pluggy.PluginValidationError, match="topik"):
        plugin_manager([SimpleNamespace(sluicegate_policy_checks=sluicegate_policy_checks)])


def test_a_plugin_is_loaded_from_a_single_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("answer = 42\n")
    assert load_plugin(file).answer == 42

    with pytest.raises(ImportError, match=r"expected a file that ends in \.py"):
        load_plugin(tmp_path / "mine.txt")


def test_a_state_of_its_own_topic_is_made_for_each_gate() -> None:
    topic = TopicName("payments", "default")
    gate = build_gate({}, now_ns=3, topic=topic)

    assert isinstance(gate.state, TopicState)
    assert (gate.topic, gate.state.topic, gate.state.now_ns) == (topic, topic, 3)
