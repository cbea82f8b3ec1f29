"""The alerts fire when they should, each with its text, and each is in the table of docs/operations.md."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.deploy.alert_cases import CASES, Case
from tests.deploy.promtool import said

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "deploy" / "prometheus" / "rules.yml"
RUNBOOK = "docs/operations.md#alerts"
ALERTS: list[dict[str, Any]] = [
    rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]
]


def series(case: Case, values: dict[str, str]) -> list[dict[str, str]]:
    """Series in promtool's form, with the labels of the case."""
    labels = {**case.labels, **({"broker": "b"} if case.has_broker else {})}
    found = []
    for name, steps in values.items():
        metric, _, own = name.partition("{")
        mine = dict(re.findall(r'(\w+)="([^"]*)"', own))
        written = ",".join(f'{key}="{value}"' for key, value in {**labels, **mine}.items())
        found.append({"series": f"{metric}{{{written}}}", "values": steps})
    return found


def play(case: Case, values: dict[str, str], expected: list[dict[str, Any]]) -> dict[str, Any]:
    alert = {"eval_time": case.at, "alertname": case.alert, "exp_alerts": expected}
    return {"interval": "1m", "input_series": series(case, values), "alert_rule_test": [alert]}


def test_promtool_finds_nothing_wrong_with_the_rules() -> None:
    assert said("check", "rules", RULES) == ""


def test_each_alert_fires_when_it_should_and_only_then(tmp_path: Path) -> None:
    plays = []
    for case in CASES:
        labels = {**case.labels, **({"broker": "b"} if case.has_broker else {}), "severity": case.severity}
        kept = {key: value for key, value in labels.items() if key not in case.without}
        fired = {"exp_labels": kept, "exp_annotations": {"summary": case.summary, "runbook": RUNBOOK}}
        plays += [play(case, dict(case.fires), [fired]), play(case, dict(case.quiet), [])]
    file = tmp_path / "rules_test.yml"
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": plays}))
    assert said("test", "rules", file) == ""


def test_each_alert_has_a_case_a_runbook_and_a_row_in_the_document() -> None:
    names = [alert["alert"] for alert in ALERTS]
    assert names == [case.alert for case in CASES]
    document = (ROOT / "docs" / "operations.md").read_text()
    section = document[document.index("\n### Alerts\n") :].split("\n### ", 2)[1]
    assert re.findall(r"^\| `(Sluicegate\w+)` \|", section, re.MULTILINE) == names
    assert {alert["annotations"]["runbook"] for alert in ALERTS} == {RUNBOOK}


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_each_alert_says_how_bad_it_is_and_what_is_wrong(alert: dict[str, Any]) -> None:
    assert alert["labels"]["severity"] in ("warning", "critical")
    assert alert["annotations"]["summary"]
