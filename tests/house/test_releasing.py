"""The version stands in one place, and the versions of Python that are supported agree everywhere."""

import re
import tomllib
from importlib.metadata import version

import pytest
from packaging.requirements import Requirement
from tests.house.test_documents import ROOT

import sluicegate

_PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
_TOX = (ROOT / "tox.ini").read_text()


def test_the_version_is_read_from_the_package() -> None:
    assert "version" in _PROJECT["project"]["dynamic"]
    source = ROOT / _PROJECT["tool"]["hatch"]["version"]["path"]
    assert f'\n__version__ = "{sluicegate.__version__}"\n' in source.read_text()


def test_the_version_that_is_installed_is_that_of_the_source() -> None:
    assert version("sluicegate") == sluicegate.__version__, "install the project again"


def test_the_changelog_begins_with_the_version() -> None:
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0].startswith(sluicegate.__version__)


def test_each_supported_python_has_an_environment_of_tox() -> None:
    classified = re.findall(
        r'"Programming Language :: Python :: 3\.(\d+)"', (ROOT / "pyproject.toml").read_text()
    )
    assert _PROJECT["project"]["requires-python"] == f">=3.{classified[0]}"
    newer = re.findall(r"^\[testenv:py3(\d+)\]$", _TOX, re.MULTILINE)
    assert set(classified[1:]) <= set(newer)
    assert f"py3{classified[0]}" in re.findall(r"^env_list = (.*)$", _TOX, re.MULTILINE)[0]


@pytest.mark.parametrize("folder", re.findall(r"^    --ignore (\S+)$", _TOX, re.MULTILINE))
def test_what_the_unit_tests_leave_out_exists(folder: str) -> None:
    assert (ROOT / folder).is_dir()


def test_the_lowest_versions_are_tried_with_every_extra() -> None:
    installed = re.search(r"uv pip install .*\n *\.\[([a-z,]+)\]", _TOX)
    assert installed is not None
    assert set(installed[1].split(",")) == _PROJECT["project"]["optional-dependencies"].keys()


def test_every_dependency_states_its_lowest_version() -> None:
    extras = _PROJECT["project"]["optional-dependencies"].values()
    wanted = [Requirement(line) for each in [_PROJECT["project"]["dependencies"], *extras] for line in each]
    unbounded = [str(each) for each in wanted if ">=" not in str(each.specifier)]
    assert unbounded == ["sluicegate[grpc]"]


@pytest.mark.parametrize("name", _PROJECT["dependency-groups"]["test"])
def test_a_test_dependency_is_bounded_as_the_product_bounds_it(name: str) -> None:
    """Else the run on the lowest versions would resolve to the higher of the two bounds."""
    extras = _PROJECT["project"]["optional-dependencies"].values()
    tested = Requirement(name)
    for line in [*_PROJECT["project"]["dependencies"], *(line for each in extras for line in each)]:
        wanted = Requirement(line)
        if wanted.name == tested.name and wanted.name != "protobuf":  # Pulsar needs less of it than Danube
            assert wanted.specifier == tested.specifier
