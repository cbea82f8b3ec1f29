from collections.abc import Sequence
from typing import Any

import pytest

from sluicegate import hookimpl
from sluicegate.engine.check import Check
from sluicegate.engine.delivery_time import DelayRule
from sluicegate.engine.faults import GateFaults
from sluicegate.model import (
    Action,
    Decision,
    Level,
    Operation,
    OperationKind,
    Outcome,
    PolicyLayer,
    PolicySet,
    PolicyValue,
    Reason,
    Setting,
    Source,
    TopicName,
)
from sluicegate.runtime.compiler import GateCompiler
from sluicegate.runtime.plugins import CHOICE, load_plugins
from sluicegate.testing import NullSink

NOW = 1_000_000_000


@pytest.fixture(autouse=True)
def no_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CHOICE, "")


def policies(version: int, **values: PolicyValue) -> PolicySet:
    settings = {name: Setting(value, Source.FILE, "gateway.yaml:1") for name, value in values.items()}
    return PolicySet(version, (PolicyLayer(Level.BROKER, "", settings),))


def name_of(topic: str) -> TopicName:
    return TopicName(topic, "ns")


def compiler(policy_set: PolicySet, *plugins: object) -> tuple[GateCompiler, GateFaults]:
    faults = GateFaults()
    return GateCompiler(load_plugins((), plugins), name_of, policy_set, NullSink(), faults), faults


def publish(size: int) -> Operation:
    return Operation(OperationKind.PUBLISH, "t", messages=1, bytes=size, largest=size)


class Refusing:
    """Refuses every publish; raises while it is told to."""

    raising = False

    @hookimpl
    def sluicegate_policy_checks(self, topic: Any, policies: Any, context: Any) -> Sequence[Check]:
        if self.raising:
            raise RuntimeError("cannot compile")
        refusal = Decision(Action.REJECT, (Reason("mine", Outcome.INVALID, "no"),))
        return [Check("mine", (OperationKind.PUBLISH,), lambda op, now_ns: refusal)]


def test_any_level_overrides_the_defaults_of_a_kind_of_broker() -> None:
    by_kind = {"on_limit.max_publish_rate": "reject"}
    unset = policies(1, max_publish_rate=1)
    made = GateCompiler(load_plugins(()), name_of, unset, NullSink(), GateFaults(), by_kind)
    other_dimension = {"on_limit.max_publish_rate_bytes": "delay"}
    told = []
    for policy_set in (unset, policies(2, max_publish_rate=1, **other_dimension)):
        made.replace(policy_set)
        gate = made.gates.get(f"t{policy_set.version}", False, NOW)
        assert gate.decide(publish(1), NOW) is None
        over = gate.decide(publish(1), NOW)
        told.append(over and over.action)

    assert told == [Action.REJECT, Action.DELAY]


@pytest.mark.seed("S1-024")
def test_new_policies_apply_from_the_next_lookup() -> None:
    made, _ = compiler(policies(1, max_message_size=100))
    before = made.gates.get("t", False, NOW)
    assert before.decide(publish(101), NOW) is not None
    made.replace(policies(2, max_message_size=200))
    after = made.gates.get("t", False, NOW)
    assert after.version == 2
    assert after.decide(publish(101), NOW) is None
    assert after.state is before.state  # counts are kept


def test_gate_has_namespace_and_version() -> None:
    made, _ = compiler(policies(7))
    gate = made.gates.get("t", False, NOW)
    assert (gate.topic.full, gate.topic.namespace, gate.version) == ("t", "ns", 7)


def test_plugin_that_raises_is_counted_and_its_last_good_checks_stay() -> None:
    plugin = Refusing()
    made, faults = compiler(policies(1, max_message_size=100), plugin)
    assert made.gates.get("t", False, NOW).decide(publish(1), NOW) is not None
    plugin.raising = True
    made.replace(policies(2, max_message_size=100))
    gate = made.gates.get("t", False, NOW)
    decision = gate.decide(publish(1), NOW)
    assert decision is not None
    assert decision.reasons[0].policy == "mine"
    size = gate.decide(publish(101), NOW)
    assert size is not None
    assert size.reasons[0].policy == "max_message_size"  # other plugins go on
    assert faults.counts == {"tests.runtime.test_compiler.Refusing": 1}
    assert faults.last["tests.runtime.test_compiler.Refusing"].error == "RuntimeError: cannot compile"


def test_plugin_that_never_succeeded_is_left_out() -> None:
    plugin = Refusing()
    plugin.raising = True
    made, faults = compiler(policies(1), plugin)
    assert made.gates.get("t", False, NOW).decide(publish(1), NOW) is None
    assert sum(faults.counts.values()) == 1


def test_faults_of_a_check_are_counted_under_its_plugin() -> None:
    class Raising:
        @hookimpl
        def sluicegate_policy_checks(self, topic: Any, policies: Any, context: Any) -> Sequence[Check]:
            def call(op: Operation, now_ns: int) -> Decision | None:
                raise LookupError("gone")

            return [Check("mine", (OperationKind.PUBLISH,), call)]

    made, faults = compiler(policies(1), Raising())
    assert made.gates.get("t", False, NOW).decide(publish(1), NOW) is None
    (plugin,) = faults.counts
    assert plugin.endswith("Raising")


def test_delay_rule_of_a_later_plugin_overrides_and_a_raising_one_is_passed_over() -> None:
    rule = DelayRule(5, 5, "publish_time")

    class Own:
        @hookimpl
        def sluicegate_delay_rule(self, topic: Any, policies: Any) -> DelayRule | None:
            return rule

    class Raising:
        @hookimpl
        def sluicegate_delay_rule(self, topic: Any, policies: Any) -> DelayRule | None:
            raise RuntimeError("no rule")

    made, faults = compiler(policies(1, fixed_delivery_delay=1000), Own(), Raising())
    assert made.gates.get("t", False, NOW).delay is rule
    assert sum(faults.counts.values()) == 1


def test_exempt_principals_have_gates_of_their_own() -> None:
    made, _ = compiler(policies(1, max_publish_rate=1))
    live, exempt = made.gates.get("t", False, NOW), made.gates.get("t", True, NOW)
    for _ in range(5):
        assert exempt.decide(publish(1), NOW) is None
    assert live.decide(publish(1), NOW) is None
    held = live.decide(publish(1), NOW)
    assert held is not None
    assert held.action is Action.DELAY


def test_a_plugin_without_marks_is_asked_for_topics_without_policies_too() -> None:
    made, _ = compiler(PolicySet(1), Refusing())
    decision = made.gates.get("t", False, NOW).decide(publish(1), NOW)
    assert decision is not None
    assert decision.reasons[0].policy == "mine"


def test_what_all_topics_share_is_as_the_broker_level_says_whatever_a_topic_says() -> None:
    own = {name: Setting(1, Source.STORE) for name in ("publish_quota", "connection_rate_limit")}
    of_broker = policies(1, publish_quota=5, connection_rate_limit=5).layers
    for of_topic in (PolicyLayer(Level.TOPIC, "trial", own), PolicyLayer(Level.TOPIC, "trial", {}, own)):
        made, _ = compiler(PolicySet(1, (*of_broker, of_topic)))
        gates = [made.gates.get(topic, False, NOW) for topic in ("orders", "trial")]

        assert [gate.publish(publish(1), NOW) for gate in gates * 2] == [None] * 4
        assert all(gate.policies.number("connection_rate_limit") == 5 for gate in gates)
