"""Fixed delivery delay as a policy."""

import pytest
from tests.builtin.lab import PolicyLab, publish, verdict

from sluicegate.engine.delay import DelayRule
from sluicegate.model import Action, Outcome, PolicyValue

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
    observed = {"fixed_delivery_delay": 5000, "observe_only.fixed_delivery_delay": True}

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
