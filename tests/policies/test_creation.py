"""Policies for topics that are created, or get more partitions."""

import pytest
from tests.policies.lab import PolicyLab, attach_producer, publish, verdict

from sluicegate.model import Action, Operation, OperationKind, Outcome

TOPIC = "/default/orders"
REFUSED = (Action.REJECT, "allow_topic_creation", Outcome.INVALID)
TOO_MANY = (Action.REJECT, "max_partitions", Outcome.LIMIT_REACHED)


def create(partitions: int = 0) -> Operation:
    return Operation(OperationKind.CREATE_TOPIC, TOPIC, client="a", partitions=partitions)


def enlarge(partitions: int) -> Operation:
    return Operation(OperationKind.CREATE_PARTITIONS, TOPIC, client="a", partitions=partitions)


def test_a_topic_is_not_created_where_that_is_not_allowed(lab: PolicyLab) -> None:
    gate = lab.gate({"allow_topic_creation": False})

    assert verdict(gate.decide(create(1), 0)) == REFUSED
    assert gate.decide(enlarge(5), 0) is None
    assert gate.decide(attach_producer("p"), 0) is None
    assert gate.publish(publish(), 0) is None


@pytest.mark.parametrize("values", [{"allow_topic_creation": True}, {"max_partitions": 0}])
def test_nothing_is_asked_where_nothing_is_limited(lab: PolicyLab, values: dict[str, bool | int]) -> None:
    gate = lab.gate(values)

    assert not gate.asks(OperationKind.CREATE_TOPIC)
    assert not gate.asks(OperationKind.CREATE_PARTITIONS)
    assert gate.decide(create(10_000), 0) is None


def test_a_topic_has_so_many_partitions(lab: PolicyLab) -> None:
    gate = lab.gate({"max_partitions": 3})

    assert gate.decide(create(), 0) is None
    assert gate.decide(create(3), 0) is None
    assert gate.decide(enlarge(3), 0) is None
    assert verdict(gate.decide(create(4), 0)) == verdict(gate.decide(enlarge(4), 0)) == TOO_MANY
    (reason,) = gate.decide(enlarge(4), 0).reasons  # type: ignore[union-attr]
    assert (reason.current, reason.limit) == (4, 3)
    assert "Current: 4, Limit: 3." in reason.text


def test_exempt_principals_create_what_they_like(lab: PolicyLab) -> None:
    gate = lab.gate({"allow_topic_creation": False, "max_partitions": 3}, exempt=True)

    assert gate.decide(create(4), 0) is None


def test_what_is_only_observed_is_created(lab: PolicyLab) -> None:
    gate = lab.gate({"allow_topic_creation": False}, observe_only=True)

    assert gate.decide(create(1), 0) is None
    assert gate.state.observed == 1
