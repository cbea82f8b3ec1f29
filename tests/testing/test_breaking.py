"""A plugin that breaks on command."""

import pytest

from sluicegate.api import (
    Action,
    Check,
    Count,
    Decision,
    EffectivePolicies,
    GateFaults,
    Operation,
    OperationKind,
    Outcome,
    PolicyModel,
    Reason,
    hookimpl,
)
from sluicegate.testing import BreakablePlugin, PluginFaultError, build_gate


class BatchPolicies(PolicyModel):
    """Its field."""

    max_batch: Count | None = None


class Batches:
    """Refuses batches of more messages than `max_batch`, and everything while it is broken."""

    @hookimpl
    def sluicegate_policy_model(self) -> type[PolicyModel]:
        return BatchPolicies

    @hookimpl
    def sluicegate_policy_checks(self, policies: EffectivePolicies) -> list[Check]:
        limit = policies.number("max_batch")

        def check(op: Operation, now_ns: int) -> Decision | None:
            if op.messages <= limit:
                return None
            return Decision(Action.REJECT, (Reason("max_batch", Outcome.INVALID, "too many"),))

        return [Check("max_batch", (OperationKind.PUBLISH,), check, fail_open=False)]


def batch(messages: int) -> Operation:
    return Operation(OperationKind.PUBLISH, "orders.eu", messages=messages, bytes=messages, largest=1)


def test_it_does_what_the_plugin_does_until_it_is_told_to_break() -> None:
    plugin, faults = BreakablePlugin(Batches()), GateFaults()
    gate = build_gate({"max_batch": 2}, [plugin], now_ns=0, faults=faults)
    decisions = [gate.publish(batch(2), 0), gate.publish(batch(3), 0)]
    assert [each and each.text for each in decisions] == [None, "too many"]

    plugin.error = OSError("the disk is gone")
    refused = gate.publish(batch(2), 0)
    assert refused is not None
    assert refused.reasons[0].policy == "max_batch"
    assert [fault.error for fault in faults.last.values()] == ["OSError: the disk is gone"]

    plugin.error = None
    assert gate.publish(batch(2), 0) is None


def test_without_a_count_of_faults_the_test_fails() -> None:
    plugin = BreakablePlugin(Batches())
    gate = build_gate({"max_batch": 2}, [plugin], now_ns=0)
    plugin.error = OSError("the disk is gone")
    with pytest.raises(PluginFaultError, match=r"policy max_batch, topic orders\.eu: OSError: the disk"):
        gate.publish(batch(1), 0)
