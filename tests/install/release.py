"""What a release uploads: sdist, wheel and list of parts, made, checked, installed: `tox run -e release`.

The name of this file keeps it out of the other tests: it needs a package index, and minutes.
"""

import json
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name
from tests.install.conftest import Fresh, installed

pytestmark = pytest.mark.timeout(1200)

_ROOT = Path(__file__).resolve().parents[2]
_VERSION = re.findall(r'^__version__ = "(.*)"$', (_ROOT / "core/sluicegate/__init__.py").read_text(), re.M)
_LEFT_OUT = (".ci/", "benchmarks/results/")
"""Folders that the sdist leaves out, as pyproject.toml says."""
_MOST_BYTES = 10 * 2**20
"""Far above what sources need; jars or recorded runs that slipped in are larger."""


@dataclass(frozen=True, slots=True)
class Built:
    """The files that a release uploads."""

    sdist: Path
    wheel: Path


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Build the sdist from the tree and the wheel from the sdist."""
    directory = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "build", "--outdir", directory, _ROOT], check=True)
    [sdist], [wheel] = directory.glob("*.tar.gz"), directory.glob("*.whl")
    return Built(sdist, wheel)


def test_both_carry_the_version_of_the_source(built: Built) -> None:
    [version] = _VERSION
    assert built.sdist.name == f"sluicegate-{version}.tar.gz"
    assert built.wheel.name == f"sluicegate-{version}-py3-none-any.whl"


def test_an_index_would_take_their_metadata(built: Built) -> None:
    command: list[str | Path] = [sys.executable, "-m", "twine", "check", "--strict", built.sdist, built.wheel]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("PASSED") == 2


def test_the_sdist_holds_the_files_under_version_control_and_no_others(built: Built) -> None:
    if shutil.which("git") is None or not (_ROOT / ".git").exists():
        pytest.skip("no git, or no repository, to tell what is under version control")
    listed = subprocess.run(["git", "ls-files"], cwd=_ROOT, capture_output=True, text=True, check=True)
    tracked = {name for name in listed.stdout.splitlines() if not name.startswith(_LEFT_OUT)}
    with tarfile.open(built.sdist) as sdist:
        held = {member.name.partition("/")[2] for member in sdist.getmembers() if not member.isdir()}
    assert tracked - held == set()
    assert held - tracked == {"PKG-INFO"}
    assert built.sdist.stat().st_size < _MOST_BYTES


def test_the_wheel_of_the_sdist_is_the_wheel_of_the_tree(built: Built, wheel: Path) -> None:
    assert _contents(built.wheel) == _contents(wheel)


def _contents(wheel: Path) -> dict[str, int]:
    with zipfile.ZipFile(wheel) as held:
        return {each.filename: each.CRC for each in held.infolist()}


@pytest.mark.parametrize("kind", ["sdist", "wheel"])
def test_each_is_installed_from_nothing_and_works(built: Built, kind: str, tmp_path: Path) -> None:
    """The command says the version, and checks the example with what the extra `kafka` brings."""
    [version] = _VERSION
    fresh = installed(getattr(built, kind), "kafka", tmp_path)
    told = subprocess.run(
        [fresh.python.with_name("sluicegate"), "--version"], capture_output=True, text=True, check=False
    )
    assert (told.returncode, told.stdout) == (0, f"sluicegate, version {version}\n"), told.stderr
    checked = fresh.sluicegate("check", _ROOT / "examples/gateway.yaml")
    assert checked.returncode == 0, checked.stdout
    assert ": ok, broker main (kafka); " in checked.stdout


def test_what_is_locked_is_enough(built: Built, tmp_path: Path) -> None:
    """As docs/maintenance.md says to install it."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = tmp_path / "venv/bin/python"
    fresh = Fresh("kafka", python, tmp_path)
    for what in (("--require-hashes", "-r", _ROOT / "requirements/kafka.txt"), ("--no-deps", built.wheel)):
        done = fresh.run("-m", "pip", "--quiet", "install", *what)
        assert done.returncode == 0, done.stdout
    assert fresh.run("-m", "pip", "check").returncode == 0
    checked = fresh.sluicegate("check", _ROOT / "examples/gateway.yaml")
    assert checked.returncode == 0, checked.stdout


def test_the_list_of_parts_names_what_is_locked(built: Built, tmp_path: Path) -> None:
    output = tmp_path / "sluicegate.cdx.json"
    subprocess.run([sys.executable, _ROOT / ".ci/sbom.py", built.wheel, output], check=True)
    listed = json.loads(output.read_text())
    [version] = _VERSION
    assert listed["bomFormat"] == "CycloneDX"
    assert (listed["metadata"]["component"]["name"], listed["metadata"]["component"]["version"]) == (
        "sluicegate",
        version,
    )
    parts = {f"{canonicalize_name(each['name'])}=={each['version']}" for each in listed["components"]}
    locked = re.findall(r"^[a-z0-9-]+==[a-z0-9.]+(?= \\)", (_ROOT / "requirements/all.txt").read_text(), re.M)
    assert len(locked) > 30
    assert set(locked) <= parts
