"""What requirements/ locks is what pyproject.toml asks for, and nothing else is in its files."""

import re
import tomllib
from itertools import pairwise
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tests.house.test_documents import ROOT

_DATA = tomllib.loads((ROOT / "pyproject.toml").read_text())
_EXTRAS = _DATA["project"]["optional-dependencies"]
_FILES = sorted((ROOT / "requirements").glob("*.txt"))
_PIN = re.compile(r"([a-z0-9-]+)==([0-9][a-z0-9.]*)(?: ; [^\\]+)? \\")
_HASH = re.compile(r"    --hash=sha256:[0-9a-f]{64}(?: \\)?")


def locked(name: str) -> dict[str, str]:
    """The versions in a file, by the names of what is locked."""
    pins = map(_PIN.fullmatch, (ROOT / "requirements" / f"{name}.txt").read_text().splitlines())
    return {pin[1]: pin[2] for pin in pins if pin}


def wanted(*extras: str) -> list[Requirement]:
    """What the product asks for, with these extras and those that they name."""
    found = [Requirement(line) for line in _DATA["project"]["dependencies"]]
    for extra in extras:
        for each in map(Requirement, _EXTRAS[extra]):
            found += wanted(*each.extras) if each.name == "sluicegate" else [each]
    return found


def of_group(name: str) -> list[Requirement]:
    """What a dependency group asks for, with those that it includes."""
    found = []
    for each in _DATA["dependency-groups"][name]:
        found += [Requirement(each)] if isinstance(each, str) else of_group(each["include-group"])
    return found


_WANTED = {
    "all": wanted(*_EXTRAS),
    "core": wanted(),
    "release": of_group("release"),
    **{extra: wanted(extra) for extra in _EXTRAS},
}


def test_each_extra_has_a_file() -> None:
    assert {path.stem for path in _FILES} == _WANTED.keys()


@pytest.mark.parametrize("name", _WANTED)
def test_what_is_asked_for_is_locked_within_its_bounds(name: str) -> None:
    """Run `make lock` if it is not."""
    versions = locked(name)
    for each in _WANTED[name]:
        assert each.specifier.contains(versions[canonicalize_name(each.name)]), each


@pytest.mark.parametrize("path", _FILES, ids=lambda path: path.name)
def test_a_file_holds_versions_and_hashes_alone(path: Path) -> None:
    """No address of an index: whoever installs it chooses that."""
    note, *lines = path.read_text().splitlines()
    assert note.startswith("# Made by `make lock`")
    assert [line for line in lines if not _PIN.fullmatch(line) and not _HASH.fullmatch(line)] == []
    assert all(_HASH.fullmatch(after) for line, after in pairwise(lines) if _PIN.fullmatch(line))


@pytest.mark.parametrize("name", sorted(_WANTED.keys() - {"all", "release"}))
def test_no_file_contradicts_another(name: str) -> None:
    assert locked(name).items() <= locked("all").items()
