"""A system that only an installed package brings takes part in a comparison run, as the command makes it."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

from tests.gateway.lab import module_path
from tests.reports.runner.conftest import Recorded
from tests.reports.runner.courier import distributing
from tests.waiting import LONG_S

from sluicegate_reports.model.runs import read_run

SCENARIO = """\
name: parcels
topics: [{ name: small }, { name: large }]
producers:
  - { name: anna, topic: small, rate: 50/s, size: 64B }
  - { name: bert, topic: large, rate: 50/s, size: 200B }
consumers: [{ name: reader, topic: small }]
phases: [{ name: only, duration: 1s }]
drain: 1s
policies: { topics: [{ name: "*", max_message_size: 100 }] }
"""
_COMMAND = (sys.executable, "-c", "from sluicegate.cli import main; main()", "compare", "run")
_ENTRY_POINTS = """\
[sluicegate.plugins]
courier = tests.grpc.driver.courier
[sluicegate.reports]
courier = tests.reports.runner.courier:REPORTS
"""


def compare(tmp_path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the command with the package installed as pip does it."""
    facts = tmp_path / "packages/courier-1.0.dist-info"
    facts.mkdir(parents=True)
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: courier\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(_ENTRY_POINTS)
    scenario = tmp_path / "parcels.yaml"
    scenario.write_text(SCENARIO)
    path = os.pathsep.join((str(facts.parent), module_path()))
    return subprocess.run(
        [*_COMMAND, str(scenario), "--systems", "courier", "--out", str(tmp_path / "run"), *options],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=LONG_S,
        check=False,
    )


def test_a_system_of_a_package_is_played_by_its_clients_through_the_proxy(tmp_path: Path) -> None:
    with distributing() as address:
        done = compare(tmp_path, "--at", f"courier={address}")
    assert done.returncode == 0, done.stdout + done.stderr
    made = Recorded(tmp_path / "run", read_run(tmp_path / "run"), [])
    (arm,) = made.run.facts.arms
    assert (arm.system, arm.door, arm.missing) == ("courier", "proxy", "")
    events = Counter((row["client"], row["event"]) for row in made.observations(door="proxy"))
    # Without an answer stays what was sent last, if a process stood still at the end.
    answered, late = events["anna", "acknowledged"], events["anna", "failed"]
    assert events["anna", "sent"] == answered + late
    assert 0 < answered <= events["reader", "received"] <= answered + late
    assert events["bert", "refused"] + events["bert", "failed"] == events["bert", "sent"]
    assert events["bert", "refused"] > 0
    refused = made.decisions(action="reject")
    assert {(row["system"], row["policy"]) for row in refused} == {("courier", "max_message_size")}
    assert {trial.policy for trial in made.run.trials} == {"max_message_size"}


def test_a_system_without_an_address_is_reported_with_the_remedy(tmp_path: Path) -> None:
    done = compare(tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "give its address by --at courier=HOST:PORT" in " ".join(done.stdout.split())


def test_an_address_of_an_unknown_system_is_refused(tmp_path: Path) -> None:
    done = compare(tmp_path, "--at", "pigeon=127.0.0.1:1")
    assert done.returncode == 2
    assert "unknown system 'pigeon': systems of other packages are courier" in " ".join(done.stderr.split())
