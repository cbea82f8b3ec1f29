"""What `plugins new` makes can be installed, passes its own tests, and is clean."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.waiting import LONG_S

from sluicegate.cli import main
from sluicegate.cli.new_plugin import KINDS, make_distribution
from sluicegate.runtime.plugins import GROUP

ROOT = Path(__file__).resolve().parents[2]
INSTALLED = ("broker", "client")
"""Kinds whose tests read a file with their kind of broker, which an entry point brings."""


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    """Run a module of this Python, which must end well; what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", *command],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=LONG_S,
        cwd=cwd,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A distribution of each kind."""
    parent = tmp_path_factory.mktemp("made")
    return {kind: make_distribution(f"acme-{kind}", kind, parent) for kind in KINDS}


@pytest.fixture(scope="module")
def site(made: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with those of INSTALLED, installed without any network."""
    target = tmp_path_factory.mktemp("site")
    options = ("--no-index", "--no-deps", "--no-build-isolation", "--quiet", "--disable-pip-version-check")
    run("pip", "install", *options, "--target", target, *(made[kind] for kind in INSTALLED), cwd=target)
    return target


@pytest.mark.parametrize("kind", KINDS)
def test_its_own_tests_pass(made: dict[str, Path], kind: str, request: pytest.FixtureRequest) -> None:
    is_installed = kind in INSTALLED
    path = request.getfixturevalue("site") if is_installed else made[kind] / "src"
    # And the conformance suite, as its README says.
    suite = ("-p", "sluicegate.conformance_option", "--sluicegate-driver", "doors", "tests")
    printed = run(
        *("pytest", "-q", "-p", "no:cacheprovider", *(suite if kind == "broker" else ())),
        cwd=made[kind],
        PYTHONPATH=str(path),
        PYTEST_ADDOPTS="",
        PYTEST_DISABLE_PLUGIN_AUTOLOAD="1",  # an author has pytest, and not what our own tests need
        SLUICEGATE_LOAD_PLUGINS=f"acme_{kind}" if is_installed else "",
    )
    assert " passed" in printed


@pytest.mark.parametrize("kind", KINDS)
def test_each_has_its_module_as_entry_point(made: dict[str, Path], kind: str) -> None:
    project = tomllib.loads((made[kind] / "pyproject.toml").read_text())["project"]
    assert project["entry-points"] == {GROUP: {f"acme_{kind}": f"acme_{kind}"}}


def test_style_and_types_are_clean(made: dict[str, Path]) -> None:
    pytest.importorskip("mypy", reason="mypy is not installed here")
    folders = [str(folder) for folder in made.values()]
    run("ruff", "check", "--no-cache", *folders, cwd=ROOT)
    run("ruff", "format", "--no-cache", "--check", *folders, cwd=ROOT)
    sources = [
        str(file) for folder in folders for file in Path(folder).rglob("*.py") if file.stem != "conftest"
    ]
    # With the project's own options and cache: this takes seconds where `mypy` has run, and else a minute.
    run("mypy", *sources, cwd=ROOT, MYPYPATH=":".join(f"{folder}/src" for folder in folders))


def new(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["plugins", "new", *arguments])
    return result.exit_code, result.output


def test_the_command_says_what_comes_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code, printed = new("acme-limits", "--kind", "policy")
    assert (code, printed.splitlines()) == (
        0,
        ["acme-limits holds a plugin of kind policy", "$ cd acme-limits", "$ pip install -e . && pytest"],
    )
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()) == [
        "acme-limits/README.md",
        "acme-limits/pyproject.toml",
        "acme-limits/src/acme_limits/__init__.py",
        "acme-limits/src/acme_limits/py.typed",
        "acme-limits/tests/conftest.py",
        "acme-limits/tests/test_acme_limits.py",
    ]


def test_what_is_there_is_not_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "acme").mkdir()
    code, printed = new("acme", "--kind", "check")
    assert (code, list((tmp_path / "acme").iterdir())) == (1, [])
    assert "acme is there already: choose another name, or move it" in printed


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("../acme", "letters, digits and dashes"),
        ("3-limits", "begin with a letter"),
        ("limits-", "letters, digits and dashes"),
        ("class", "letters, digits and dashes"),
        ("gr\u00f6\u00dfe", "letters, digits and dashes"),
        ("", "letters, digits and dashes"),
        ("json", "choose another name, such as my-json"),
        ("sluicegate", "choose another name, such as my-sluicegate"),
        ("kafka", "choose another name, such as my-kafka"),
    ],
)
def test_a_name_that_cannot_be_used_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, remedy: str
) -> None:
    monkeypatch.chdir(tmp_path)
    code, printed = new(name, "--kind", "policy")
    assert (code, list(tmp_path.iterdir())) == (1, [])
    assert remedy in printed


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    code, printed = new("acme", "--kind", "policy")
    assert code == 1
    assert "cannot write acme: No such file or directory" in printed


def test_an_unknown_kind_is_refused_with_those_that_there_are() -> None:
    code, printed = new("acme", "--kind", "server")
    assert code == 2
    assert "'policy', 'check', 'delay', 'factor', 'broker', 'store', 'client'" in printed
