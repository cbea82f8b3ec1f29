"""That the matrix leaves out no policy of any system, and that what is not applicable is said."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from tests.matrix.cells import NOT_APPLICABLE, applicable, capabilities
from tests.matrix.policies import ELSEWHERE, SHOWN

from sluicegate.cli import main

_VALUES = {
    "allow_topic_creation": False,
    "max_partitions": 5,
    "delay_header": "deliver-at",
    "inspect": True,
    "max_delivery_delay": "1s",
    "max_unacked_messages_per_consumer": 5,
}
"""Of each policy that is not applicable somewhere."""
NOWHERE = [
    (system, policy)
    for system, policies in capabilities().items()
    for policy, how in policies.items()
    if how == NOT_APPLICABLE
]


@pytest.mark.parametrize("system", sorted(capabilities()))
def test_each_policy_of_a_system_is_shown(system: str) -> None:
    shown = {shown.policy for shown in SHOWN if system in shown.systems}
    assert shown | (ELSEWHERE & set(applicable(system))) == set(applicable(system))
    assert not shown & ELSEWHERE


def test_all_systems_declare_the_same_policies() -> None:
    first, *others = capabilities().values()
    assert all(other.keys() == first.keys() for other in others)


@pytest.mark.parametrize(("system", "policy"), NOWHERE)
def test_what_is_not_applicable_is_said(system: str, policy: str, tmp_path: Path) -> None:
    file, topic = tmp_path / "gateway.yaml", "/default/matrix" if system == "danube" else "matrix"
    policies = {"topics": [{"name": topic, policy: _VALUES[policy]}]}
    broker: dict[str, Any] = {"name": "matrix", "system": system, "bootstrap": ["127.0.0.1:1"]}
    broker["listen"] = {"port": 2}
    content = {"brokers": [broker], "policies": policies, "state_dir": str(tmp_path / "state")}
    file.write_text(yaml.safe_dump(content))
    checked = CliRunner().invoke(main, ["check", str(file)])
    assert f"{policy!r} is not applicable to {system} and has no effect on broker 'matrix'" in checked.output
    explained = CliRunner().invoke(main, ["explain", "-c", str(file), topic])
    (line,) = [line for line in explained.output.splitlines() if policy in line]
    assert NOT_APPLICABLE in line
