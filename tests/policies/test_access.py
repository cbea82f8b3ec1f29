"""Policies for who may use a topic."""

import pytest
from tests.policies.lab import (
    PolicyLab,
    attach_consumer,
    attach_producer,
    create_subscription,
    publish,
    verdict,
)

from sluicegate.model import Action, Outcome


def refused(policy: str) -> tuple[Action, str, Outcome]:
    return Action.REJECT, policy, Outcome.INVALID


def test_a_read_only_topic_takes_no_producer_and_no_message(lab: PolicyLab) -> None:
    gate = lab.gate({"read_only": True})

    assert verdict(gate.decide(attach_producer("p"), 0)) == refused("read_only")
    assert verdict(gate.publish(publish(), 0)) == refused("read_only")
    assert gate.decide(create_subscription("s"), 0) is None
    assert gate.decide(attach_consumer("c"), 0) is None


def test_a_write_only_topic_takes_no_consumer(lab: PolicyLab) -> None:
    gate = lab.gate({"write_only": True})

    assert verdict(gate.decide(create_subscription("s"), 0)) == refused("write_only")
    assert verdict(gate.decide(attach_consumer("c"), 0)) == refused("write_only")
    assert gate.decide(attach_producer("p"), 0) is None
    assert gate.publish(publish(), 0) is None


@pytest.mark.parametrize(
    ("client", "is_allowed"),
    [("team-a-1@10.0.0.1:9", True), ("b@10.0.0.1:9", True), ("team-b@10.0.0.1:9", False), ("", False)],
)
def test_a_client_id_has_to_match_a_pattern(lab: PolicyLab, client: str, is_allowed: bool) -> None:
    gate = lab.gate({"client_id_pattern": "team-a-*, b"})

    for operation in (attach_producer("p", client), attach_consumer("c", client=client)):
        decision = gate.decide(operation, 0)
        assert (verdict(decision) == refused("client_id_pattern")) is not is_allowed
        assert (decision is None) is is_allowed


def test_a_policy_that_is_false_refuses_nobody(lab: PolicyLab) -> None:
    gate = lab.gate({"read_only": False, "write_only": False, "client_id_pattern": ""})

    assert gate.publish(publish(), 0) is None
    assert gate.decide(attach_consumer("c"), 0) is None
