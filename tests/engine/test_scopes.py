"""Policies for some principals, clients and groups: their own limits, and everybody's where they set none."""

from collections.abc import Sequence
from typing import Any

from tests.engine.scoped import SECOND_NS, TOPIC, compiler, layer, operation, publish

from sluicegate import hookimpl
from sluicegate.engine.check import Check
from sluicegate.engine.gate import Gate
from sluicegate.model import (
    Action,
    Decision,
    EffectivePolicies,
    Level,
    OperationKind,
    Part,
    PolicyLayer,
    PolicyValue,
    Scope,
)

ALICE = Scope(principals=("alice",))
LOADERS = Scope(clients=("loader-*",))
BATCH = Scope(groups=("batch-*",))
RATE = "max_publish_rate"
REJECT = {"on_limit.max_publish_rate": "reject", "on_limit.max_publish_rate_bytes": "reject"}


def gate_of(*layers: PolicyLayer) -> Gate:
    return compiler(*layers).gates.get(TOPIC, False, 0)


def passed(gate: Gate, count: int, principal: str = "bob", client: str = "app", nbytes: int = 100) -> int:
    """How many of some messages pass at once."""
    return sum(gate.publish(publish(principal, client, nbytes), 0) is None for _ in range(count))


def test_a_topic_without_scopes_has_a_plain_gate() -> None:
    other = layer({RATE: 2}, ALICE, name="other.topic")

    gate = gate_of(layer({RATE: 10}), other)

    assert type(gate) is Gate
    assert gate.state.scoping is None


def test_those_in_a_scope_have_a_limit_of_their_own() -> None:
    gate = gate_of(layer({RATE: 5, **REJECT}), layer({RATE: 2}, ALICE))

    assert passed(gate, 9, "alice") == 2
    assert passed(gate, 9, "bob") == 5
    assert passed(gate, 9, "carol") == 0
    refused = gate.publish(publish("alice"), 0)
    assert refused is not None
    assert (refused.reasons[0].limit, refused.reasons[0].level) == (2, "topic for principals alice")


def test_what_a_scope_does_not_set_is_shared_with_everybody() -> None:
    gate = gate_of(layer({RATE: 5, **REJECT}), layer({"max_message_size": 50}, ALICE))

    assert passed(gate, 3, "alice", nbytes=100) == 0
    assert passed(gate, 3, "alice", nbytes=40) == 3
    assert passed(gate, 9, "bob") == 2


def test_bytes_stay_shared_where_a_scope_sets_only_messages() -> None:
    gate = gate_of(layer({RATE: 5, "max_publish_rate_bytes": 1_000, **REJECT}), layer({RATE: 2}, ALICE))

    assert passed(gate, 9, "alice", nbytes=300) == 2
    assert passed(gate, 9, "bob", nbytes=300) == 1
    assert passed(gate, 9, "bob", nbytes=100) == 1
    assert passed(gate, 9, "bob", nbytes=0) == 3


def test_a_held_message_waits_for_the_limit_of_its_scope_alone() -> None:
    gate = gate_of(layer({RATE: 1}), layer({RATE: 2}, ALICE))
    passed(gate, 1, "bob")
    passed(gate, 2, "alice")
    of_bob, of_alice = publish("bob"), publish("alice")

    decisions = [gate.publish(of_bob, 0), gate.publish(of_alice, 0)]

    assert [each and each.action for each in decisions] == [Action.DELAY, Action.DELAY]
    assert gate.publish(of_bob, SECOND_NS // 2) is not None
    assert gate.publish(of_alice, SECOND_NS // 2) is None
    assert gate.publish(of_bob, SECOND_NS) is None


def test_the_burst_of_a_scope_shapes_no_limit_that_others_share() -> None:
    gate = gate_of(layer({RATE: 5, **REJECT}), layer({"burst_seconds": 3}, ALICE))

    assert passed(gate, 20, "alice") == 5


def test_a_scope_with_its_own_burst() -> None:
    gate = gate_of(layer({RATE: 5, **REJECT}), layer({RATE: 2, "burst_seconds": 3}, ALICE))

    assert passed(gate, 20, "alice") == 6
    assert passed(gate, 20, "bob") == 5


def test_a_scope_that_only_observes_has_no_part_in_the_limit() -> None:
    gate = gate_of(layer({RATE: 5, **REJECT}), layer({"mode.max_publish_rate": "observe"}, ALICE))

    assert passed(gate, 20, "alice") == 20
    assert passed(gate, 20, "bob") == 5


def test_each_field_is_that_of_the_most_specific_scope() -> None:
    everyone = Scope(principals=("*",))
    both = Scope(principals=("alice",), clients=("loader-*",))
    gate = gate_of(
        layer({RATE: 9, **REJECT}),
        layer({RATE: 1, "max_message_size": 10}, everyone),
        layer({RATE: 2}, ALICE),
        layer({RATE: 3}, LOADERS),
        layer({"max_message_size": 200}, both),
    )

    assert gate.policies.number(RATE) == 9
    assert gate.policies_for("bob", "app@h:1").number(RATE) == 1
    assert gate.policies_for("alice", "app@h:1").number(RATE) == 2
    assert gate.policies_for("alice", "loader-1@h:1").number(RATE) == 2
    assert gate.policies_for("bob", "loader-1@h:1").number(RATE) == 3
    assert gate.policies_for("alice", "loader-1@h:1").number("max_message_size") == 200
    assert passed(gate, 9, "alice", nbytes=10) == 2
    assert passed(gate, 9, "alice", "loader-1") == 0


def test_a_higher_level_goes_before_a_scope_of_a_lower_one() -> None:
    gate = gate_of(layer({RATE: 2}, ALICE, Level.BROKER), layer({RATE: 5, **REJECT}))

    assert passed(gate, 9, "alice") == 5
    assert passed(gate, 9, "bob") == 0


def test_the_ceiling_of_a_scope_makes_a_limit_of_its_own() -> None:
    gate = gate_of(layer({RATE: 5, **REJECT}), layer({}, ALICE, ceilings={RATE: 3}))

    assert passed(gate, 9, "alice") == 3
    assert passed(gate, 9, "bob") == 5


def test_those_whom_a_looser_ceiling_bounds_do_not_share_the_limit_of_all_others() -> None:
    gate = gate_of(layer({RATE: 5, **REJECT}, ceilings={RATE: 3}), layer({}, ALICE, ceilings={RATE: 9}))

    assert passed(gate, 9, "alice") == 5
    assert passed(gate, 9, "bob") == 3


def test_producers_in_a_scope_are_counted_apart() -> None:
    limit = "max_producers_per_topic"
    gate = gate_of(layer({limit: 1}), layer({limit: 2}, ALICE), layer({RATE: 5}, LOADERS))
    kind = OperationKind.ATTACH_PRODUCER

    def attach(principal: str, key: str) -> Decision | None:
        return gate.decide(operation(kind, principal, "loader-1", key=key), 0)

    assert attach("bob", "b1") is None
    assert attach("alice", "a1") is None
    assert attach("alice", "a2") is None
    assert attach("alice", "a3") is not None
    assert attach("carol", "c1") is not None
    gate.detach(operation(kind, "bob", "loader-1", key="b1"))
    assert attach("carol", "c1") is None
    gate.state.producers.rename("a1", "a0")
    assert attach("alice", "a3") is not None


def test_consumers_and_subscriptions_of_groups_are_counted_apart() -> None:
    subscriptions, consumers = "max_subscriptions_per_topic", "max_consumers_per_topic"
    policies: dict[str, PolicyValue] = {subscriptions: 1, consumers: 1, f"on_unknown.{subscriptions}": "last"}
    gate = gate_of(layer(policies), layer({subscriptions: 2, consumers: 2}, BATCH))

    def attach(kind: OperationKind, group: str, key: str = "") -> bool:
        return gate.decide(operation(kind, group=group, key=key), 0) is None

    create, consume = OperationKind.CREATE_SUBSCRIPTION, OperationKind.ATTACH_CONSUMER
    assert [attach(create, each) for each in ("one", "two")] == [True, False]
    assert [attach(create, f"batch-{each}") for each in range(3)] == [True, True, False]
    assert [attach(consume, "one", each) for each in ("c1", "c2")] == [True, False]
    assert [attach(consume, f"batch-{each}", f"b{each}") for each in range(3)] == [True, True, False]


def test_consumers_of_one_subscription_are_counted_by_principal() -> None:
    limit = "max_consumers_per_subscription"
    gate = gate_of(layer({limit: 1}), layer({limit: 2}, ALICE))

    def attach(principal: str, key: str) -> bool:
        return gate.decide(operation(OperationKind.ATTACH_CONSUMER, principal, group="s", key=key), 0) is None

    assert [attach("alice", each) for each in ("a1", "a2", "a3")] == [True, True, False]
    assert [attach("bob", each) for each in ("b1", "b2")] == [True, False]


def test_deliveries_to_a_group_have_a_rate_of_their_own() -> None:
    policies = {"max_dispatch_rate": 3, "max_subscription_dispatch_rate": 2}
    gate = gate_of(layer(policies), layer({"max_dispatch_rate": 1}, BATCH))

    def delivered(group: str) -> int:
        ops = [operation(OperationKind.DISPATCH, group=group) for _ in range(9)]
        return sum(gate.dispatch(op, 0) is None for op in ops)

    assert delivered("batch-1") == 1
    assert delivered("one") == 2
    assert delivered("") == 1


def test_exempt_principals_obey_the_scope_in_what_is_left_for_them() -> None:
    made = compiler(layer({RATE: 1, "max_message_size": 50}), layer({"max_message_size": 200}, ALICE))
    gate = made.gates.get(TOPIC, True, 0)

    assert passed(gate, 3, "alice") == 3
    assert passed(gate, 3, "bob") == 0
    assert gate.state.exempt_messages == 3


def test_sessions_learn_what_any_scope_asks_for() -> None:
    limits: dict[str, PolicyValue] = {
        "max_delivery_delay": 5,
        "required_headers": "x",
        "max_unacked_messages_per_consumer": 1,
    }
    gate = gate_of(layer(limits, ALICE))

    assert gate.max_delay_ms == 5
    assert gate.reads == {Part.HEADERS}
    assert gate.asks(OperationKind.ACKNOWLEDGE)
    assert gate.decide(publish("bob"), 0) is None


def test_without_its_scope_a_topic_has_a_plain_gate_again() -> None:
    made = compiler(layer({RATE: 2, **REJECT}), layer({RATE: 1}, ALICE))
    passed(made.gates.get(TOPIC, False, 0), 3, "alice")

    made.replace(compiler(layer({RATE: 2, **REJECT})).policies)

    gate = made.gates.get(TOPIC, False, 0)
    assert type(gate) is Gate
    assert passed(gate, 9, "alice") == 2


def test_more_clients_than_are_remembered(monkeypatch: Any) -> None:
    monkeypatch.setattr("sluicegate.engine.scoping._MOST_KNOWN", 2)
    gate = gate_of(layer({RATE: 2, **REJECT}), layer({RATE: 50}, LOADERS))

    assert sum(passed(gate, 1, client=f"loader-{each}") for each in range(9)) == 9
    assert passed(gate, 9) == 2


class Named:
    """A plugin that says for whom it is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    @hookimpl
    def sluicegate_policy_checks(
        self, topic: Any, policies: EffectivePolicies, context: Any
    ) -> Sequence[Check]:
        self.asked.append((str(policies.scopes and policies.scopes[0]), policies.owner(RATE)))
        return []


def test_a_plugin_is_asked_for_each_scope_and_told_whose_limits_are_set() -> None:
    plugin = Named()
    made = compiler(
        layer({RATE: 2}), layer({RATE: 1}, ALICE), layer({"max_message_size": 9}, BATCH), plugins=(plugin,)
    )

    made.gates.get(TOPIC, False, 0)

    assert plugin.asked == [
        ("()", ""),
        ("principals alice", "principals alice"),
        ("groups batch-*", ""),
    ]
