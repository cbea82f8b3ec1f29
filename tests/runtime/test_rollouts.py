"""Policies on their way from observed to enforced: counted by rule, judged by window and budget."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from tests.runtime.sampled import SECOND

from sluicegate.broker import PolicyRefusedError
from sluicegate.config.fields import PolicyFields
from sluicegate.config.models import Rollout
from sluicegate.engine.faults import GateFaults
from sluicegate.model import (
    Level,
    Operation,
    OperationKind,
    PolicyLayer,
    PolicySet,
    PolicyValue,
    Setting,
    Source,
    TopicName,
    parse_mode,
)
from sluicegate.runtime.compiler import GateCompiler
from sluicegate.runtime.plugins import plugins_of
from sluicegate.runtime.promoting import NotReadyError, Promotion, next_mode, promoted
from sluicegate.runtime.rollout_counts import Rule
from sluicegate.runtime.rollouts import Figures, Rollouts, mode_key
from sluicegate.store import Key
from sluicegate.testing import RecordingSink

RATE = "max_publish_rate"
SIZE = "max_message_size"
SETTINGS = Rollout(window=60_000)
RULE = Rule(RATE, Level.TOPIC, "orders.*", "", "observe")


class Broker:
    """The gates of one broker, and what they count for roll-outs."""

    def __init__(self, values: Mapping[str, PolicyValue], name: str = "orders.*") -> None:
        plugins = plugins_of((), builtin=True)
        self.fields = PolicyFields.of(plugins.policy_models)
        self.compiler = GateCompiler(
            plugins,
            lambda topic: TopicName(topic, "orders"),
            self.policies(values, name),
            RecordingSink(),
            GateFaults(),
        )

    @staticmethod
    def policies(values: Mapping[str, PolicyValue], name: str) -> PolicySet:
        settings = {field: Setting(value, Source.FILE) for field, value in values.items()}
        return PolicySet(1, (PolicyLayer(Level.TOPIC, name, settings),))

    def publish(
        self, topic: str, times: int, principal: str = "bob", nbytes: int = 10, now_ns: int = 0
    ) -> int:
        """How many pass."""
        gate = self.compiler.gates.get(topic, False, now_ns)
        ops = [
            Operation(
                OperationKind.PUBLISH, topic, principal=principal, messages=1, bytes=nbytes, largest=nbytes
            )
            for _ in range(times)
        ]
        return sum(gate.publish(op, now_ns) is None for op in ops)

    def counts(self) -> list[dict[str, Any]]:
        asyncio.run(self.compiler.rollouts.refresh(self.compiler.gates.states))
        return self.compiler.rollouts.snapshot()

    def snapshot(self) -> dict[str, Any]:
        return {"broker": "main", "rollouts": self.counts()}


def test_topics_count_for_the_rule_that_sets_the_mode() -> None:
    broker = Broker({RATE: 10, f"mode.{RATE}": "observe"})
    assert broker.publish("orders.a", 15) == 15
    assert broker.publish("orders.b", 12) == 12
    assert broker.publish("invoices", 100) == 100
    [row] = broker.counts()
    assert row == {
        "policy": RATE,
        "level": "topic",
        "name": "orders.*",
        "broker": "",
        "mode": "observe",
        "asked": 27,
        "would": 7,
        "did": 0,
    }
    broker.publish("orders.a", 5)
    [row] = broker.counts()
    assert (row["asked"], row["would"]) == (32, 12)


def test_another_mode_counts_anew_and_refusals_count_as_asked() -> None:
    broker = Broker({SIZE: 10, f"mode.{SIZE}": "observe"})
    broker.publish("orders.a", 4, nbytes=11)
    canary: dict[str, PolicyValue] = {SIZE: 10, f"mode.{SIZE}": "canary principals alice"}
    broker.compiler.replace(broker.policies(canary, "orders.*"))
    assert broker.publish("orders.a", 2, nbytes=11) == 2
    assert broker.publish("orders.a", 3, "alice", nbytes=11) == 0
    rows = {row["mode"]: (row["asked"], row["would"], row["did"]) for row in broker.counts()}
    assert rows == {"observe": (4, 4, 0), "canary principals alice": (5, 2, 3)}


def test_policies_without_a_mode_or_a_value_are_not_followed() -> None:
    broker = Broker({RATE: 10, f"mode.{SIZE}": "observe", "mode.max_dispatch_rate": "observe"})
    broker.publish("orders.a", 1)
    assert [row["policy"] for row in broker.counts()] == [SIZE]  # its default holds


def test_states_that_are_gone_are_forgotten() -> None:
    broker = Broker({RATE: 10, f"mode.{RATE}": "observe"})
    broker.publish("orders.a", 3)
    assert broker.counts()[0]["asked"] == 3
    broker.compiler.gates.states.clear()
    broker.compiler.gates.live.clear()
    broker.counts()
    broker.publish("orders.a", 2)
    assert broker.counts()[0]["asked"] == 5


def row(asked: int, would: int = 0, did: int = 0, mode: str = "observe") -> dict[str, Any]:
    found = RULE._replace(mode=mode)
    return {**found._asdict(), "level": found.level.label, "asked": asked, "would": would, "did": did}


def followed(*rows: dict[str, Any], rollouts: Rollouts | None = None, at_s: float = 0.0) -> Rollouts:
    rollouts = rollouts or Rollouts(SETTINGS)
    for place, found in enumerate(rows):
        rollouts.follow([{"broker": "main", "rollouts": [found]}], at_s + place)
    return rollouts


def test_only_the_last_window_counts() -> None:
    rollouts = Rollouts(SETTINGS)
    for second in range(121):
        refused = min(second, 30)
        rollouts.follow([{"broker": "main", "rollouts": [row(100 * second, refused)]}], second)
    found = rollouts.of(RULE, 120)
    assert found is not None
    assert (found.seconds, found.asked, found.would) == (60, 6_000, 0)


def test_brokers_add_up_and_a_new_worker_begins_at_0() -> None:
    rollouts = Rollouts(SETTINGS)

    def follow(second: int, one: int, other: int) -> None:
        snapshots = [{"broker": name, "rollouts": [row(asked)]} for name, asked in (("a", one), ("b", other))]
        rollouts.follow(snapshots, second)

    follow(0, 10, 10)
    follow(1, 30, 20)
    follow(2, 5, 25)
    found = rollouts.of(RULE, 2)
    assert found is not None
    assert found.asked == 20 + 10 + 5 + 5


def figures(asked: int, would: int, seconds: float = 60, mode: str = "observe") -> Figures:
    return Figures(RULE._replace(mode=mode), seconds, asked, would, 0)


@pytest.mark.parametrize(
    ("mode", "following"),
    [
        ("observe", "canary 1% of principals"),
        ("canary 1%", "canary 10% of principals"),
        ("canary 5% of clients", "canary 10% of principals"),
        ("canary principals alice", "canary 1% of principals"),
        ("canary 50%", "enforce"),
    ],
)
def test_steps(mode: str, following: str) -> None:
    assert str(next_mode(parse_mode(mode), SETTINGS, has_canary=True)) == following
    assert str(next_mode(parse_mode(mode), SETTINGS, has_canary=False)) == "enforce"


def asked_for(to: str = "", *, force: bool = False) -> Promotion:
    return Promotion(Level.TOPIC, "orders.*", "", RATE, to, force)


FIELDS = PolicyFields.of(plugins_of((), builtin=True).policy_models)
MODES: dict[Key, PolicyValue] = {mode_key(RULE): "observe"}


def test_a_promotion_sets_the_next_mode_where_the_mode_is_set() -> None:
    wanted = promoted(asked_for(), MODES, FIELDS, SETTINGS, figures(1_000, 10))
    assert wanted == (Key(Level.TOPIC, "orders.*", f"mode.{RATE}"), "canary 1% of principals")
    assert promoted(asked_for("enforce"), MODES, FIELDS, SETTINGS, figures(1_000, 0)).value == "enforce"


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (None, "no running gateway has seen anything"),
        (figures(0, 0), "no running gateway has seen anything"),
        (figures(1_000, 11), r"of 1000 operations in 60 s it would have refused or held 11 \(1.10%\), above"),
        (figures(1_000, 0, 50), "it was watched for 50 s of 1m"),
    ],
)
def test_a_promotion_is_refused_without_evidence(found: Figures | None, why: str) -> None:
    with pytest.raises(NotReadyError, match=why):
        promoted(asked_for(), MODES, FIELDS, SETTINGS, found)
    assert promoted(asked_for(force=True), MODES, FIELDS, SETTINGS, found).value == "canary 1% of principals"


def test_what_is_enforced_cannot_be_promoted_nor_can_a_mode_be_invented() -> None:
    with pytest.raises(PolicyRefusedError, match="enforced already"):
        promoted(asked_for(), {}, FIELDS, SETTINGS, figures(1_000, 0))
    with pytest.raises(PolicyRefusedError, match="'half' is no mode: write"):
        promoted(asked_for("half"), MODES, FIELDS, SETTINGS, figures(1_000, 0))


CANARY = "canary 10% of principals"


@pytest.mark.parametrize(
    ("mode", "age_s", "asked", "did", "seconds", "falls"),
    [
        (CANARY, None, 1_000, 11, 20, True),
        (CANARY, None, 1_000, 10, 20, False),
        (CANARY, None, 99, 50, 20, False),
        (CANARY, None, 1_000, 11, 5, False),
        ("observe", None, 1_000, 1_000, 20, False),
        ("enforce", 59.0, 1_000, 11, 20, True),
        ("enforce", 60.0, 1_000, 1_000, 20, False),
        ("enforce", None, 1_000, 1_000, 20, False),
    ],
)
def test_what_falls_back(
    mode: str, age_s: float | None, asked: int, did: int, seconds: int, falls: bool
) -> None:
    rollouts = followed(row(0, mode=mode))
    followed(row(asked, did=did, mode=mode), rollouts=rollouts, at_s=seconds)
    key = mode_key(RULE)
    ages = {} if age_s is None else {key: age_s}
    assert [found.did for found in rollouts.exceeding(seconds, ages)] == ([did] if falls else [])


def test_rules_that_no_worker_has_any_more_are_forgotten() -> None:
    rollouts = followed(row(10))
    rollouts.follow([{"broker": "main", "rollouts": []}], 5)
    assert len(rollouts) == 0


def test_counts_are_bounded() -> None:
    layers = tuple(
        PolicyLayer(
            Level.TOPIC,
            f"t{number}",
            {RATE: Setting(5, Source.FILE), f"mode.{RATE}": Setting("observe", Source.FILE)},
        )
        for number in range(150)
    )
    broker = Broker({})
    broker.compiler.replace(replace(broker.compiler.policies, layers=layers))
    for number in range(150):
        broker.publish(f"t{number}", 1, now_ns=SECOND)
    assert len(broker.counts()) == 100
