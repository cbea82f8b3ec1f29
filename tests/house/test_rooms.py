"""The rooms import only what docs/development.md says, and a room that does not is found."""

import ast
import configparser
import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CORE = ROOT / "core" / "sluicegate"
SOURCES = ["core", "interceptors", "plugins/danube", "plugins/kafka", "plugins/pulsar", "reports"]
CONTRACT = "importlinter:contract:"
# These rooms may import all of core, or nearly; their contracts name only what is forbidden to them.
OPEN_ROOMS = {"cli", "demo", "gateway"}
PLANTS = {
    "core/sluicegate/model/planted.py": ("import pydantic", "the model knows"),
    "core/sluicegate/engine/planted.py": ("import time", "the engine is pure"),
    "core/sluicegate/engine/planted_hook.py": ("import sluicegate.hooks", "the engine is pure"),
    "core/sluicegate/store/planted.py": ("import sluicegate.engine.bucket", "the store knows"),
    "core/sluicegate/gateway/planted.py": ("import sluicegate_kafka", "the core never imports"),
    "reports/sluicegate_reports/transforms/planted.py": (
        "import sluicegate_reports.runner",
        "only the runner",
    ),
    "reports/sluicegate_reports/runner/planted.py": ("import sluicegate_reports.transforms", "the runner of"),
    "plugins/kafka/sluicegate_kafka/planted.py": ("import sluicegate.gateway", "a broker room meets"),
    "plugins/kafka/sluicegate_kafka/codec/planted.py": ("import sluicegate.model", "codecs are"),
    "plugins/pulsar/sluicegate_pulsar/codec/planted.py": ("import socket", "broker rooms do no"),
    # Its front may ask the broker; a file of its session may not reach it.
    "plugins/kafka/sluicegate_kafka/places.py": ("import sluicegate_kafka.front", "a session reaches"),
}
# Files of a broker room's session, one of which no list ever named; and one that is new.
SESSIONS = [
    "interceptors/sluicegate_grpc/splice/lane.py",
    "plugins/danube/sluicegate_danube/names.py",
    "plugins/kafka/sluicegate_kafka/planted_session.py",
    "plugins/kafka/sluicegate_kafka/repeated.py",
    "plugins/pulsar/sluicegate_pulsar/assembling.py",
    "plugins/pulsar/sluicegate_pulsar/reference/topic.py",
]


def contracts() -> dict[str, configparser.SectionProxy]:
    parser = configparser.ConfigParser(comment_prefixes=("#",))
    parser.read(ROOT / ".importlinter")
    return {name.removeprefix(CONTRACT): parser[name] for name in parser.sections() if CONTRACT in name}


def rooms() -> set[str]:
    """Packages and modules of core."""
    return {
        path.stem
        for path in CORE.iterdir()
        if not path.name.startswith("__") and (path.suffix == ".py" or (path / "__init__.py").exists())
    }


def table() -> dict[str, set[str]]:
    """What each room of core may import, as the document tells it."""
    text = (ROOT / "docs" / "development.md").read_text()
    rows = re.findall(r"^\| `sluicegate\.(\w+)` \|[^|]*\|([^|]*)\|$", text, re.MULTILINE)
    return {room: set(re.findall(r"`(\w+)`", allowed)) for room, allowed in rows}


def dependencies() -> set[str]:
    """Import names of all that the product depends on, its extras included."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *chain.from_iterable(project["optional-dependencies"].values())]
    # One extra takes in another by the project's own name.
    names = {re.split(r"[<>=\[ ]", line)[0].lower() for line in wanted} - {project["name"]}
    return {
        package
        for package, distributions in packages_distributions().items()
        if any(name.lower() in names for name in distributions) and not package.startswith("_")
    }


def lint_imports(tree: Path) -> str:
    """What import-linter prints for a tree; its own packages win over installed ones."""
    path = os.pathsep.join(os.fspath(tree / source) for source in SOURCES)
    done = subprocess.run(
        [
            *(sys.executable, "-c", "from importlinter.cli import lint_imports_command as run; run()"),
            *("--no-cache", "--config", os.fspath(ROOT / ".importlinter")),
        ],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": path, "COLUMNS": "300", "PYTHONSAFEPATH": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Contracts" in done.stdout, done.stderr
    return done.stdout


def plant(path: Path, line: str) -> None:
    """Writes a line below what a file holds, or a file of that line."""
    with path.open("a") as file:
        file.write(f"\n{line}\n")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the sources."""
    for source in SOURCES:
        shutil.copytree(ROOT / source, tmp_path / source, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    return tmp_path


def test_contracts_are_kept_and_planted_violations_break_them(tree: Path) -> None:
    assert " 0 broken" in lint_imports(tree)
    for path, (line, _) in PLANTS.items():
        plant(tree / path, line)
    summary = lint_imports(tree).split("Broken contracts")[0]
    broken = [line for line in summary.splitlines() if " BROKEN" in line]
    for _, name in PLANTS.values():
        assert any(line.startswith(name) for line in broken), f"{name!r} is not among {broken}"
    assert len(broken) == len({name for _, name in PLANTS.values()})


def test_each_file_of_a_session_is_held_to_do_no_input_or_output(tree: Path) -> None:
    for path in SESSIONS:
        plant(tree / path, "import asyncio, socket, time")
    broken = lint_imports(tree).partition("Broken contracts")[2]
    for path in SESSIONS:
        module = ".".join(Path(path).with_suffix("").parts).partition("sluicegate_")[2]
        for name in ("asyncio", "socket", "time"):
            assert f"sluicegate_{module} -> {name} " in broken


def test_every_room_is_in_the_table() -> None:
    assert rooms() == set(table())


def test_rooms_without_a_folder_of_tests_are_those_that_the_document_names() -> None:
    text = (ROOT / "docs" / "development.md").read_text()
    sentence = re.search(r"The rooms (`[^:]*) have no folder of their own", text)
    assert sentence is not None
    without = {room for room in rooms() if not list((ROOT / "tests" / room).glob("test_*.py"))}
    assert set(re.findall(r"`(\w+)`", sentence[1])) == without


@pytest.mark.parametrize("room", sorted(rooms() - OPEN_ROOMS))
def test_contract_forbids_what_the_table_does_not_allow(room: str) -> None:
    contract = contracts()[room]
    assert contract["source_modules"].split() == [f"sluicegate.{room}"]
    forbidden = set(contract["forbidden_modules"].split())
    others = {f"sluicegate.{other}" for other in rooms() - table()[room] - {room}}
    if room == "store":
        others.add("sluicegate.hooks")  # only its plugin module may: the contract names that one import
    assert {name for name in forbidden if name.startswith("sluicegate.")} == others
    assert dependencies() - table()[room] - forbidden == set()


def test_every_module_of_the_reports_is_on_one_side_of_its_contracts() -> None:
    folder = ROOT / "reports" / "sluicegate_reports"
    found = {
        path.stem for path in folder.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    named = {name.rpartition(".")[2] for name in contracts()["reports"]["source_modules"].split()}
    # The runner itself, what joins both sides, and files that hold no code.
    assert found - named == {"runner", "plugin", "demo", "scenarios", "__init__"}


@pytest.mark.parametrize(
    "statement", ["import core.sluicegate", "import plugins.kafka", "from core import x"]
)
def test_lint_bans_the_folders_as_packages(statement: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--no-cache", "--select", "TID251", "-"],
        input=f"{statement}\n",
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "twice" in done.stdout


@pytest.mark.parametrize("folder", ["core", "plugins", "reports"])
def test_safe_path_hides_the_folders(folder: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"import {folder}"],
        cwd=ROOT,
        env={**os.environ, "PYTHONSAFEPATH": "1", "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "ModuleNotFoundError" in done.stderr


def test_each_package_folder_holds_one_package_and_a_readme() -> None:
    for folder in SOURCES:
        if folder != "core":
            found = {path.name for path in (ROOT / folder).iterdir() if not path.name.startswith((".", "__"))}
            packages = {name for name in found if name.startswith("sluicegate_")}
            assert len(packages) == 1
            assert found - packages == {"README.md"}


def declared_hooks() -> set[str]:
    tree = ast.parse((CORE / "hooks.py").read_text())
    return {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        and any("hookspec" in ast.unparse(d) for d in node.decorator_list)
    }


def asked_hooks(path: Path) -> set[str]:
    """Hooks that a module calls: `….hook.NAME(` or the name as an argument of a call."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            found |= {
                arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)
            }
            called = ast.unparse(node.func)
            if ".hook." in called:
                found.add(called.rpartition(".")[2])
    return found


def test_every_declared_hook_is_called_by_the_product() -> None:
    callers = [
        path for path in CORE.rglob("*.py") if path != CORE / "hooks.py" and "testing" not in path.parts
    ]
    asked = set().union(*(asked_hooks(path) for path in callers))
    assert declared_hooks() - asked == set()
