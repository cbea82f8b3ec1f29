"""The rooms import only what docs/development.md says, and a room that does not is found."""

import ast
import copy
import os
import re
import shutil
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).resolve().parents[2]
CORE = ROOT / "core" / "sluicegate"
SOURCES = ["core", "interceptors", "plugins/danube", "plugins/kafka", "plugins/pulsar", "reports"]
PLANTS = {
    "core/sluicegate/engine/planted.py": ("import time", "what decides"),
    "core/sluicegate/engine/planted_hook.py": ("import sluicegate.hooks", "the rooms of core"),
    "core/sluicegate/decisions/planted.py": ("import asyncio", "these run in"),
    "core/sluicegate/features/adaptive/planted.py": ("import time", "these are told"),
    "core/sluicegate/features/pressure/planted.py": (
        "import sluicegate.features.adaptive.formulas",
        "features know nothing",
    ),
    "core/sluicegate/store/planted.py": ("import sluicegate.hooks", "only the plugin module"),
    "core/sluicegate/net/planted.py": ("import sluicegate_kafka", "the core never imports"),
    "reports/sluicegate_reports/transforms/planted.py": ("import httpx", "only the runner"),
    "reports/sluicegate_reports/planted.py": (
        "import sluicegate_reports.runner",
        "the runner of the reports is known",
    ),
    "reports/sluicegate_reports/runner/planted.py": (
        "import sluicegate_reports.transforms",
        "the runner of the reports knows",
    ),
    "plugins/kafka/sluicegate_kafka/planted.py": ("import sluicegate.processes", "a broker room meets"),
    "plugins/kafka/sluicegate_kafka/cluster/planted.py": (
        "import sluicegate_kafka.session",
        "the rooms inside a broker room",
    ),
    "plugins/kafka/sluicegate_kafka/session/requests/planted.py": (
        "import sluicegate_kafka.session.shared",
        "the rooms of Kafka's session",
    ),
    "plugins/kafka/sluicegate_kafka/codec/planted.py": ("import sluicegate.model", "codecs are"),
    "plugins/pulsar/sluicegate_pulsar/session/shared/planted.py": (
        "import sluicegate_pulsar.session.requests",
        "the rooms of Pulsar's session",
    ),
    "plugins/pulsar/sluicegate_pulsar/codec/planted.py": ("import socket", "broker rooms do no"),
    "interceptors/sluicegate_grpc/proxy/planted.py": (
        "import sluicegate_grpc.interceptors",
        "the interceptors and the proxy",
    ),
    # Its front may ask the broker; a file of its session may not reach it.
    "plugins/kafka/sluicegate_kafka/session/shared/client_counts.py": (
        "import sluicegate_kafka.front",
        "a session reaches",
    ),
}
# Files of a broker room's session, one of which no list ever named; and one that is new.
SESSIONS = [
    "interceptors/sluicegate_grpc/proxy/splice/frame_stream.py",
    "plugins/danube/sluicegate_danube/names.py",
    "plugins/kafka/sluicegate_kafka/session/planted.py",
    "plugins/kafka/sluicegate_kafka/session/producing/repeated.py",
    "plugins/pulsar/sluicegate_pulsar/session/producers/assembling.py",
    "plugins/pulsar/sluicegate_pulsar/reference/topic.py",
]


def rooms() -> set[str]:
    """Packages and modules of core."""
    return {
        path.stem
        for path in CORE.iterdir()
        if not path.name.startswith("__") and (path.suffix == ".py" or (path / "__init__.py").exists())
    }


def table() -> dict[str, set[str]]:
    """What each room of core may import, as the document tells it: rooms and packages of others."""
    text = (ROOT / "docs" / "development.md").read_text()
    rows = re.findall(r"^\| `sluicegate\.(\w+)` \|[^|]*\|([^|]*)\|$", text, re.MULTILINE)
    return {
        room: set(re.findall(r"`(\w+)`", allowed)) | (rooms() if "all of core" in allowed else set())
        for room, allowed in rows
    }


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    """Who imports whom in core, not counting what only annotations need."""
    return grimp.build_graph(
        "sluicegate", include_external_packages=True, exclude_type_checking_imports=True, cache_dir=None
    )


def not_allowed(graph: grimp.ImportGraph, room: str, allowed: set[str]) -> list[str]:
    """Imports of a room that its row does not name; it may import itself and the standard library."""
    package = f"sluicegate.{room}"
    modules = {package} | graph.find_descendants(package)
    imports = [(module, to) for module in modules for to in graph.find_modules_directly_imported_by(module)]
    return sorted(
        f"{module} -> {to}"
        for module, to in imports
        # `sluicegate` itself holds no more than the version.
        if (top := to.removeprefix("sluicegate.").split(".")[0]) not in {room, "sluicegate"} | allowed
        and top not in sys.stdlib_module_names
    )


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


@pytest.mark.parametrize(
    ("room", "imported"),
    [
        ("interceptors", "proxy"),
        ("proxy", "interceptors"),
        ("semantics", "interceptors"),
        ("semantics", "proxy"),
        ("semantics", "checking"),
    ],
)
def test_the_halves_of_grpc_are_apart(tree: Path, room: str, imported: str) -> None:
    plant(
        tree / f"interceptors/sluicegate_grpc/{room}/planted.py",
        f"import sluicegate_grpc.{imported}",
    )
    broken = lint_imports(tree).partition("Broken contracts")[2]
    assert "the interceptors and the proxy of gRPC" in broken
    assert f"sluicegate_grpc.{room}.planted -> sluicegate_grpc.{imported}" in broken


def circle(graph: grimp.ImportGraph) -> list[str]:
    """Modules each of which imports the next one, the first of which is the last one too; empty for none."""
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_imports_go_in_a_circle_not_even_those_of_annotations() -> None:
    packages = [path.name for source in SOURCES for path in sorted((ROOT / source).glob("sluicegate*"))]
    graph = grimp.build_graph(*packages, cache_dir=None)
    assert circle(graph) == []
    graph.add_import(importer="sluicegate_reports.model.trial", imported="sluicegate_reports.model.finding")
    graph.add_import(importer="sluicegate_reports.model.finding", imported="sluicegate_reports.model.trial")
    planted = {"sluicegate_reports.model.trial", "sluicegate_reports.model.finding"}
    assert set(circle(graph)) == planted


def test_every_room_is_in_the_table() -> None:
    assert rooms() == set(table())


def test_rooms_without_a_folder_of_tests_are_those_that_the_document_names() -> None:
    text = (ROOT / "docs" / "development.md").read_text()
    sentence = re.search(r"The rooms (`[^:]*) have no folder of their own", text)
    assert sentence is not None
    without = {room for room in rooms() if not list((ROOT / "tests" / room).rglob("test_*.py"))}
    assert set(re.findall(r"`(\w+)`", sentence[1])) == without


@pytest.mark.parametrize("room", sorted(rooms()))
def test_a_room_imports_only_what_its_row_names(graph: grimp.ImportGraph, room: str) -> None:
    assert not_allowed(graph, room, table()[room]) == []


@pytest.mark.parametrize(
    ("room", "imported"),
    [("model", "pydantic"), ("engine", "sluicegate.hooks"), ("store", "sluicegate.engine.bucket")],
)
def test_an_import_that_no_row_names_is_found(graph: grimp.ImportGraph, room: str, imported: str) -> None:
    planted = f"sluicegate.{room}.planted"
    changed = copy.deepcopy(graph)
    changed.add_module(planted)
    if imported not in changed.modules:
        changed.add_module(imported, is_squashed=True)
    changed.add_import(importer=planted, imported=imported)
    assert not_allowed(changed, room, table()[room]) == [f"{planted} -> {imported}"]


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
