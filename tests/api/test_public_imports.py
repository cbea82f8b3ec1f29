"""Examples, documents and the tests of the kit import only what docs/api.md calls public."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OWN = (
    "sluicegate_business_hours",
    "sluicegate_header_rule",
    "sluicegate_mqtt",
    "sluicegate_prometheus_factor",
)
"""The examples' own modules."""
_IMPORT = re.compile(
    r"^\s*(?:>>> )?(?:from (sluicegate[\w.]*) import|import (sluicegate[\w.]*))", re.MULTILINE
)


def public() -> set[str]:
    """The modules of the table in docs/api.md."""
    rows = re.findall(r"^\| (`sluicegate[^|]*) \|", (ROOT / "docs" / "api.md").read_text(), re.MULTILINE)
    return {module for row in rows for module in re.findall(r"`([\w.]+)`", row)}


def programs() -> list[Path]:
    return sorted([*(ROOT / "examples").rglob("*.py"), *(ROOT / "tests" / "testing").glob("*.py")])


def documents() -> list[Path]:
    folders = [ROOT, ROOT / "docs", ROOT / "core", ROOT / "interceptors", *(ROOT / "plugins").iterdir()]
    found = [path for folder in folders for path in folder.glob("*.md")]
    return sorted([*found, *(ROOT / "examples").rglob("*.md")])


def imported(text: str) -> Iterator[str]:
    """Modules of this project that a program imports."""
    for node in ast.walk(ast.parse(text)):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        yield from (name for name in names if name.startswith("sluicegate") and not name.startswith(OWN))


def test_the_table_names_modules_that_exist() -> None:
    assert {"sluicegate.api", "sluicegate.testing", "sluicegate_grpc.aio"} <= public()
    for module in public():
        path = module.replace(".", "/")
        assert list(ROOT.glob(f"*/{path}*")) or list(ROOT.glob(f"plugins/*/{path}*")), module


@pytest.mark.parametrize("path", programs(), ids=lambda path: str(path.relative_to(ROOT)))
def test_programs_import_only_what_is_public(path: Path) -> None:
    assert set(imported(path.read_text())) - public() == set()


@pytest.mark.parametrize("path", documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_documents_import_only_what_is_public(path: Path) -> None:
    found = {first or second for first, second in _IMPORT.findall(path.read_text())} - {*OWN}
    assert found - public() == set()


def test_other_imports_are_found() -> None:
    planted = "import sluicegate.engine\nfrom sluicegate.model import Action\n"
    assert set(imported(planted)) == {"sluicegate.engine", "sluicegate.model"}
    assert {first or second for first, second in _IMPORT.findall(planted)} == set(imported(planted))
