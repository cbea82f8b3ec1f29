"""What `sluicegate explain` says of limits that gateways share."""

from typing import Any

import pytest

from sluicegate.cli.explained import as_text

EXPLAINED: dict[str, Any] = {
    "topic": "t",
    "namespace": "default",
    "broker": "main",
    "system": "kafka",
    "observe_only": False,
    "policies": {},
    "unset": [],
    "scopes": [],
    "factors": {},
    "reduced": None,
    "adaptive": {},
    "unmatched": [],
}


@pytest.mark.parametrize(
    ("standing", "line"),
    [
        (None, "each gateway process counts limits on its own"),
        (
            {"away": False, "members": 0},
            "the budget store has not answered yet, so what is under a rate or quota waits",
        ),
        ({"away": False, "members": 1}, "rates, quotas and counts are shared by 1 worker"),
        ({"away": False}, "rates, quotas and counts are shared by 4 workers"),
        (
            {"away": True, "spends": "share"},
            "the budget store is away, so 1/4 of each rate and quota holds here until it answers: why",
        ),
        (
            {"away": True, "spends": "open"},
            "the budget store is away, so no rate or quota holds until it answers: why",
        ),
        (
            {"away": True, "spends": "pause"},
            "the budget store is away, so what is under a rate or quota waits until it answers: why",
        ),
    ],
)
def test_explain_says_with_whom_limits_are_shared(standing: dict[str, Any] | None, line: str) -> None:
    budgets = None if standing is None else {"members": 4, "error": "why", **standing}
    assert line in as_text({**EXPLAINED, "budgets": budgets}, "read from a file", 0)
