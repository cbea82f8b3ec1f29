"""How the policies are written, and that each place that injects says when it ends."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from pydantic import ValidationError

from sluicegate.chaos.chaos_fields import ChaosPolicies, share_of
from sluicegate.cli import main

EXAMPLE = Path(__file__).parents[2] / "examples" / "chaos.yaml"


def ahead(**by: int) -> str:
    return (datetime.now(UTC) + timedelta(**by)).isoformat()


@pytest.mark.parametrize(
    ("text", "share"), [("5%", 0.05), ("0.5 %", 0.005), ("100%", 1.0), ("0%", 0.0), (" 7% ", 0.07)]
)
def test_percentages_are_shares(text: str, share: float) -> None:
    read = ChaosPolicies.model_validate({"chaos_kill": text, "chaos_until": ahead(hours=1)})
    assert share_of(read.chaos_kill or "") == pytest.approx(share)


@pytest.mark.parametrize("wrong", ["5", 5, 0.05, "101%", "-1%", "%", "often", True, "5%%"])
def test_other_shares_are_refused(wrong: object) -> None:
    with pytest.raises(ValidationError, match="is no percentage"):
        ChaosPolicies.model_validate({"chaos_kill": wrong, "chaos_until": ahead(hours=1)})


@pytest.mark.parametrize(
    "wrong", ["18:00", "2026-03-02T18:00", "tomorrow", 1_800_000_000, "0001-01-01T00:00+14:00"]
)
def test_an_end_is_a_time_with_a_zone(wrong: object) -> None:
    with pytest.raises(ValidationError, match="no time with a zone"):
        ChaosPolicies.model_validate({"chaos_until": wrong})


def test_an_end_is_within_a_day() -> None:
    ChaosPolicies.model_validate({"chaos_until": ahead(hours=24)})
    with pytest.raises(ValidationError, match="more than 24 hours ahead"):
        ChaosPolicies.model_validate({"chaos_until": ahead(hours=25)})


def test_an_end_that_has_come_is_no_mistake() -> None:
    """A gateway must start again with the file that it has."""
    read = ChaosPolicies.model_validate({"chaos_kill": "1%", "chaos_until": "2026-03-02T19:00+01:00"})
    assert read.chaos_until == "2026-03-02T18:00:00Z"


@pytest.mark.parametrize("policy", ["chaos_kill", "chaos_latency"])
def test_a_fault_without_an_end_is_refused(policy: str) -> None:
    with pytest.raises(ValidationError, match=f"'{policy}' has no end"):
        ChaosPolicies.model_validate({policy: "1%" if policy == "chaos_kill" else "1s"})


def test_what_injects_nothing_needs_no_end() -> None:
    ChaosPolicies.model_validate({"chaos_kill": "0%", "chaos_latency": 0})


@pytest.mark.parametrize("is_named", [True, False])
def test_the_file_has_these_policies_only_with_the_plugin(tmp_path: Path, is_named: bool) -> None:
    file = tmp_path / "gateway.yaml"
    document = {
        "state_dir": str(tmp_path / "state"),
        "plugins": ["sluicegate.chaos"] if is_named else [],
        "brokers": [
            {"name": "k", "system": "kafka", "bootstrap": ["127.0.0.1:1"], "listen": {"port": 19_000}}
        ],
        "policies": {
            "topics": [
                {"name": "t", "chaos_kill": "1%", "chaos_until": ahead(hours=1)},
                {"name": "u", "chaos_latency": "1s"},
            ]
        },
    }
    file.write_text(yaml.safe_dump(document))
    checked = CliRunner().invoke(main, ["check", str(file)])
    assert checked.exit_code == 1
    assert ("'chaos_latency' has no end" in checked.output) is is_named
    assert ("unknown key 'chaos_kill'" in checked.output) is not is_named
    if is_named:
        del document["policies"]["topics"][1]  # type: ignore[index]
        file.write_text(yaml.safe_dump(document))
        checked = CliRunner().invoke(main, ["check", str(file)])
        assert checked.exit_code == 0, checked.output


def test_the_example_is_good() -> None:
    checked = CliRunner().invoke(main, ["check", str(EXAMPLE)])
    assert (checked.exit_code, checked.stderr) == (0, "")
