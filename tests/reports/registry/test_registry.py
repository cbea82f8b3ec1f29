"""Systems, doors and policies of other packages, added by an entry point; mistakes in them are named."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.reports.registry.river import ARM, EXTENSION, KIND, METRIC, install, installed

from sluicegate_reports import registry
from sluicegate_reports.commands.group import report
from sluicegate_reports.model.results import Chart, RunFacts, Series
from sluicegate_reports.render.page.looks import looks
from sluicegate_reports.runner.command import compare


@pytest.fixture
def river(tmp_path: Path) -> Iterator[None]:
    yield from installed(tmp_path)


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    yield monkeypatch
    monkeypatch.undo()
    registry.forget()


@pytest.mark.usefixtures("river")
def test_entries_of_packages_come_after_built_in_ones() -> None:
    assert [*registry.systems()][-1] == "river"
    assert [*registry.doors()][-2:] == ["lock", "bank"]
    assert [*registry.policies()][-1] == "max_barge_rate"
    river = registry.system("river")
    assert river.lack("max_delivery_delay", "lock") == "water does not wait"
    assert river.lack("max_delivery_delay", "bank") == ""


@pytest.mark.usefixtures("river")
def test_a_system_of_a_package_has_its_own_look_and_label() -> None:
    (look,) = looks(Chart("m", "", "", (Series("river", "lock", ()),)), RunFacts("r", "", ""))
    assert (look.colour, look.door, look.label) == ("c5", "d3", "a river, not a broker")


def test_unregistered_systems_have_no_known_properties() -> None:
    assert registry.system("creek") == registry.System("creek")
    assert registry.door("ford") == registry.Door("ford")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("raise ValueError('dry')", "cannot be loaded: ValueError: dry"),
        ("REPORTS = 7", "is no Extension but of type int"),
        (EXTENSION.replace('"river"', '"kafka"'), "system 'kafka' of entry point 'wrong'"),
        (EXTENSION.replace('"lock", 3', '"proxy", 3'), "door 'proxy' of entry point 'wrong'"),
        (METRIC.replace("transform=largest,", ""), "metric 'largest_barge' of entry point 'wrong'"),
        (METRIC.replace('"largest_barge",', '"lost",', 1), "metric 'lost' of entry point 'wrong'"),
        (EXTENSION.replace("max_barge_rate", "max_publish_rate"), "is already sluicegate itself's"),
        (KIND.format("kafka"), "kind 'kafka' of entry point 'wrong'"),
    ],
)
def test_an_entry_point_that_cannot_be_used_is_named_by_both_commands(
    text: str, said: str, tmp_path: Path, elsewhere: pytest.MonkeyPatch
) -> None:
    elsewhere.delitem(__import__("sys").modules, "wrong", raising=False)
    install(tmp_path, text, elsewhere, module="wrong")
    for command, arguments in ((report, ["render", __file__]), (compare, ["scenarios"])):
        done = CliRunner().invoke(command, arguments)
        assert done.exit_code == 2
        assert said in done.output
        assert "'wrong'" in done.output


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("wrong:NOTHING", "arm 'wrong:NOTHING' cannot be loaded: AttributeError"),
        ("wrong:REPORTS", "arm 'wrong:REPORTS' is no Arm but of type Extension"),
    ],
)
def test_an_arm_that_cannot_be_used_is_named_by_the_command(
    place: str, said: str, tmp_path: Path, elsewhere: pytest.MonkeyPatch
) -> None:
    elsewhere.delitem(__import__("sys").modules, "wrong", raising=False)
    install(tmp_path, ARM.format(place), elsewhere, module="wrong")
    done = CliRunner().invoke(compare, ["scenarios"])
    assert done.exit_code == 2
    assert said in " ".join(done.output.split())
