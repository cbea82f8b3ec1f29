"""docs/run-directory.md and the rules of docs/reports.md say what the code says."""

from dataclasses import fields
from pathlib import Path

import pytest

from sluicegate_reports.model import observations
from sluicegate_reports.model.results import Arm, RunFacts, Skew
from sluicegate_reports.model.runs import Run, Trial
from sluicegate_reports.registry import policies
from sluicegate_reports.transforms import transit
from sluicegate_reports.verdicts import thresholds

DOCS = Path(__file__).parents[2] / "docs"
DIRECTORY = (DOCS / "run-directory.md").read_text()
REPORTS = (DOCS / "reports.md").read_text()


@pytest.mark.parametrize("kind", [Run, RunFacts, Arm, Skew, Trial])
def test_every_field_of_a_run_is_documented(kind: type) -> None:
    assert [each.name for each in fields(kind) if f"`{each.name}`" not in DIRECTORY] == []


def test_every_column_of_the_observations_is_documented_as_it_is() -> None:
    for column in observations.COLUMNS:
        assert f"| `{column.name}` | {column.type} | {column.unit} | {column.meaning} |" in DIRECTORY
    assert f"schema version {observations.VERSION}," in DIRECTORY
    assert [event for event in observations.Event if f"`{event}`" not in DIRECTORY] == []


def test_the_rules_of_verdicts_are_documented_with_their_bounds() -> None:
    rules = REPORTS[REPORTS.index("## When a policy counts as kept") : REPORTS.index("### Who was admitted")]
    bases = {policy.removesuffix("_bytes") for policy in policies()}
    assert [policy for policy in bases if f"`{policy}`" not in rules] == []
    for told in (
        f"<= {thresholds.EXACT_SHARE * 100:g} %",
        f"<= {thresholds.WITHIN_SHARE * 100:g} %",
        f"{thresholds.WITHIN_DELIVERIES * 100:g} %",
        f"at most {thresholds.TRANSIT_S:g} s before it was seen",
        f"by its length, up to {thresholds.STALL_S:g} s",
        f"read on for {thresholds.IDLE_S:g} s, for three mean gaps",
        f"p99 at most {thresholds.EXACT_LATE_MS:,.0f} ms late",
        f"p99 at most {thresholds.WITHIN_LATE_MS:,.0f} ms late",
        f"within {transit.AROUND * transit.SLOT_US / 1000:g} ms of its own sending or arrival",
    ):
        assert told in rules
