"""The README's first file holds for both of its systems."""

from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.docs.world import documented_file

from sluicegate.cli import main


@pytest.mark.parametrize(
    ("broker", "topic"), [("main", "orders.eu"), ("events", "persistent://shop/eu/orders")]
)
def test_the_first_example_holds_on_both_systems(
    broker: str, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("gateway.yaml").write_text(documented_file("README.md"))
    checked = CliRunner().invoke(main, ["check", "gateway.yaml"], catch_exceptions=False)
    assert checked.exit_code == 0
    assert "can match nothing" not in checked.stderr
    shown = CliRunner().invoke(main, ["explain", topic, "--broker", broker], catch_exceptions=False).stdout
    assert "max_publish_rate         500/s" in shown
