"""What a file and a store may suffer without a change of them being lost."""

from pathlib import Path

import pytest
from tests.gateway.test_watching import GOOD, Lab

from sluicegate.runtime.plugins import CHOICE

TWO = GOOD.replace(
    "state_dir",
    '  - {{name: extra, system: echo, bootstrap: ["127.0.0.1:1"], listen: {{port: 0}}}}\nstate_dir',
)


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    monkeypatch.setenv(CHOICE, "")
    return Lab(tmp_path)


def test_a_broker_that_never_ran_may_be_taken_back(lab: Lab) -> None:
    lab.write(text=TWO)
    assert lab.watch.check() is True
    lab.write(size="200")
    assert lab.watch.check() is True
    assert (lab.size(), lab.watch.successful) == ([200], True)
    lab.watch.close()
