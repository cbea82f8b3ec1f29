"""Fixed delivery delay as a policy."""

import pytest
from pydantic import ValidationError
from tests.policies.lab import PolicyLab, publish, verdict

from sluicegate.config.fields import PolicyFields
from sluicegate.engine.delivery_time import DelayRule
from sluicegate.model import (
    Action,
    EffectivePolicies,
    Operation,
    Outcome,
    Part,
    PolicyValue,
    TopicName,
)
from sluicegate.policies.delay import DelayPolicies

HOUR_MS = 3_600_000


def test_unset_and_zero_delay_nothing(lab: PolicyLab) -> None:
    assert lab.gate({}).delay is None
    assert lab.gate({"fixed_delivery_delay": 0}).delay is None


def test_a_fixed_delay_is_a_rule_of_the_gate(lab: PolicyLab) -> None:
    assert lab.gate({"fixed_delivery_delay": 5000}).delay == DelayRule(5000, HOUR_MS, "publish_time")
    shaped: dict[str, PolicyValue] = {
        "fixed_delivery_delay": 5000,
        "delay_clock": "receive_time",
        "max_timestamp_ahead": 60_000,
    }
    assert lab.gate(shaped).delay == DelayRule(5000, 60_000, "receive_time")


def test_exempt_principals_are_delayed_too(lab: PolicyLab) -> None:
    assert lab.gate({"fixed_delivery_delay": 5000}, exempt=True).delay is not None


def test_an_observed_delay_is_not_applied(lab: PolicyLab) -> None:
    observed: dict[str, PolicyValue] = {"fixed_delivery_delay": 5000, "mode.fixed_delivery_delay": "observe"}

    assert lab.gate(observed).delay is None
    assert lab.gate({"fixed_delivery_delay": 5000}, observe_only=True).delay is None


@pytest.mark.parametrize("values", [{}, {"fixed_delivery_delay": 5000}])
def test_stamps_far_ahead_are_refused_only_where_delivery_is_delayed(
    lab: PolicyLab, values: dict[str, int]
) -> None:
    gate = lab.gate(values)
    op = publish()
    op.ahead_ms = HOUR_MS
    assert gate.publish(op, 0) is None

    op.ahead_ms = HOUR_MS + 1
    answer = gate.publish(op, 0)

    if not values:
        assert answer is None
    else:
        assert verdict(answer) == (Action.REJECT, "max_timestamp_ahead", Outcome.INVALID)
        assert answer is not None
        assert "Current: 3600001 ms ahead, Limit: 3600000 ms." in answer.text


def asking(delay_ms: int) -> Operation:
    op = publish()
    op.delay_ms = delay_ms
    return op


@pytest.mark.seed("S2-004", "S2-010", "S2-027")
def test_asking_for_more_than_the_longest_delay_is_refused_and_as_much_is_not(lab: PolicyLab) -> None:
    gate = lab.gate({"max_delivery_delay": 2000})

    assert gate.publish(asking(2000), 0) is None
    answer = gate.publish(asking(2001), 0)

    assert verdict(answer) == (Action.REJECT, "max_delivery_delay", Outcome.INVALID)
    assert answer is not None
    assert answer.text == "Exceeds max allowed delivery delay of 2000 milliseconds"
    assert gate.publish(asking(0), 0) is None


@pytest.mark.seed("S2-003", "S2-005", "S2-007")
@pytest.mark.parametrize(
    ("values", "fixed_ms", "max_ms", "refused"),
    [
        ({}, None, 0, False),
        ({"max_delivery_delay": 0}, None, 0, False),
        ({"max_delivery_delay": 10}, None, 10, True),
        ({"max_delivery_delay": 10, "fixed_delivery_delay": 0}, None, 10, True),
        ({"max_delivery_delay": 10, "fixed_delivery_delay": 5000}, 5000, 0, False),
        ({"max_delivery_delay": 0, "fixed_delivery_delay": 5000}, 5000, 0, False),
    ],
)
def test_fixed_beats_max_beats_the_client(
    lab: PolicyLab, values: dict[str, PolicyValue], fixed_ms: int | None, max_ms: int, refused: bool
) -> None:
    gate = lab.gate(values)

    assert (gate.delay.fixed_ms if gate.delay is not None else None) == fixed_ms
    assert gate.max_delay_ms == max_ms
    assert (gate.publish(asking(1 << 62), 0) is not None) is refused


def test_an_observed_longest_delay_refuses_nothing_and_an_observed_fixed_one_leaves_it_in_force(
    lab: PolicyLab,
) -> None:
    observed = lab.gate({"max_delivery_delay": 10, "mode.max_delivery_delay": "observe"})
    assert observed.publish(asking(11), 0) is None
    assert observed.state.observed == 1

    both: dict[str, PolicyValue] = {
        "max_delivery_delay": 10,
        "fixed_delivery_delay": 5,
        "mode.fixed_delivery_delay": "observe",
    }
    gate = lab.gate(both)
    assert gate.delay is None
    assert gate.publish(asking(11), 0) is not None


def test_what_is_known_of_the_broker_comes_with_the_rule(lab: PolicyLab) -> None:
    rule = lab.gate({"fixed_delivery_delay": 5}).delay
    assert rule is not None
    assert rule.tick_ms == 0

    told: dict[str, PolicyValue] = {
        "fixed_delivery_delay": 5,
        "delayed_delivery_active": False,
        "delayed_delivery_tick_time": 100,
    }
    rule = lab.gate(told).delay
    assert rule is not None
    assert rule.tick_ms == 100


@pytest.mark.seed("S2-001", "S2-025")
@pytest.mark.parametrize("name", ["fixedDeliveryDelayInMillis", "maxDeliveryDelayInMillis"])
def test_delays_go_up_to_a_hundred_years(name: str) -> None:
    fields = PolicyFields.of([DelayPolicies])

    assert fields.parse(name, "36525d") == fields.parse(name, 3_155_760_000_000) == 3_155_760_000_000
    for value in (3_155_760_000_001, "36526d", 2**63, -1, 1.5, "later"):
        with pytest.raises(ValidationError):
            fields.parse(name, value)


def test_a_header_is_a_rule_of_the_gate(lab: PolicyLab) -> None:
    gate = lab.gate({"delay_header": "when"})

    assert gate.header_delay == DelayRule(0, HOUR_MS, header="when")
    assert gate.reads == {Part.HEADERS}
    assert lab.gate({"delay_header": ""}).reads == frozenset()
    assert lab.gate({"delay_header": "when", "fixed_delivery_delay": 5}).header_delay is None


def test_a_rule_of_a_plugin_has_headers_read() -> None:
    class Plugin:
        def sluicegate_delay_rule(self, topic: TopicName, policies: EffectivePolicies) -> DelayRule:
            return DelayRule(0, header="mine")

    lab = PolicyLab()
    lab.plugins = [Plugin()]
    assert lab.gate({}).reads == {Part.HEADERS}


@pytest.mark.parametrize("header", ["x" * 257, 7])
def test_a_header_has_a_usable_name(header: object) -> None:
    with pytest.raises(ValidationError):
        DelayPolicies.model_validate({"delay_header": header})
    with pytest.raises(ValueError, match="expected the name of one"):
        DelayRule(0, header=7)  # type: ignore[arg-type]
