"""Names and slots that logs, metrics and plugins rely on: existing ones never change."""

from enum import Enum

import pytest

from sluicegate import hooks
from sluicegate.engine.check import Stage
from sluicegate.model import Action, OperationKind, Outcome

FIXED: dict[type[Enum], dict[str, int | str]] = {
    Stage: {"SIZE": 0, "COUNT": 1, "CUSTOM": 2, "RATE": 3, "ACCOUNT": 4},
    Action: {
        "ALLOW": "allow",
        "REJECT": "reject",
        "DELAY": "delay",
        "REWRITE": "rewrite",
        "DROP": "drop",
    },
    Outcome: {"LIMIT_REACHED": "limit_reached", "INVALID": "invalid", "PRECONDITION": "precondition"},
    OperationKind: {
        "CONNECT": 0,
        "ATTACH_PRODUCER": 1,
        "CREATE_SUBSCRIPTION": 2,
        "ATTACH_CONSUMER": 3,
        "PUBLISH": 4,
        "DISPATCH": 5,
        "ACKNOWLEDGE": 6,
        "DETACH": 7,
    },
}
"""What there was when this was written, in its order; what comes later is added at the end."""


@pytest.mark.seed("S5-083")
@pytest.mark.parametrize("kind", FIXED, ids=lambda kind: str(kind.__name__))
def test_existing_names_keep_value_and_slot(kind: type[Enum]) -> None:
    found = [(each.name, each.value) for each in kind]
    assert found[: len(FIXED[kind])] == list(FIXED[kind].items())
    assert len(kind.__members__) == len(found)  # no alias: two names for one place


@pytest.mark.seed("S5-083")
def test_slots_that_are_numbers_count_from_0() -> None:
    """Gates keep what they call by the place of its kind."""
    for kind in (Stage, OperationKind):
        assert [each.value for each in kind] == list(range(len(kind)))


@pytest.mark.seed("S4-008")
def test_quotas_factors_and_tasks_have_one_name_each() -> None:
    asked = [name for name in vars(hooks) if name.startswith("sluicegate_")]
    found = [name for name in asked if any(word in name for word in ("quota", "factor", "task"))]
    assert found == ["sluicegate_quota", "sluicegate_quota_factors", "sluicegate_tasks"]
