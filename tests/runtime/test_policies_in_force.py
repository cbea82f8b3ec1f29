"""What a file and a store may suffer without a change of them being lost."""

from pathlib import Path

import pytest
from tests.gateway.test_watching import GOOD, Lab

from sluicegate.runtime.plugins import CHOICE
from sluicegate.runtime.policies_in_force import PolicyWatch

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


@pytest.mark.parametrize("there", [True, False])
def test_a_file_that_changes_while_the_store_is_opened_is_read(lab: Lab, there: bool) -> None:
    loaded = lab.watch.loaded
    lab.watch.close()
    lab.write(size="200")
    if not there:
        lab.path.unlink()
    lab.watch = PolicyWatch(lab.path, loaded, lab.watch.plugins, {})
    assert lab.watch.check() is there
    assert (lab.size(), lab.watch.successful) == ([200 if there else 100], there)
    lab.watch.close()
