"""No name in the product says only that its holder was found, or told to someone.

A variable is called by what it holds: `match`, `refusals`, `note`. `found` fits whatever a function looked
for, so a reader has to look for it again.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("benchmarks", "core/sluicegate", "interceptors", "plugins", "reports")
EMPTY = frozenset({"found", "told"})


def names_in(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """The names that a module gives, with their lines."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name, node.lineno
            case ast.arg(arg=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name, node.lineno
            case ast.ClassDef(name=name) | ast.alias(asname=str(name)):
                yield name, node.lineno
            case (
                ast.MatchAs(name=str(name))
                | ast.MatchStar(name=str(name))
                | ast.ExceptHandler(name=str(name))
            ):
                yield name, node.lineno


def empty_names(room: Path) -> list[str]:
    """The names in a room that say nothing, each with its file and line."""
    return [
        f"{path.relative_to(room)}:{line}: {name}"
        for path in sorted(room.rglob("*.py"))
        for name, line in names_in(ast.parse(path.read_text()))
        if name.strip("_").lower() in EMPTY
    ]


@pytest.mark.parametrize("room", ROOMS)
def test_no_name_says_only_that_something_was_found(room: str) -> None:
    assert empty_names(ROOT / room) == []


@pytest.mark.parametrize(
    "line",
    [
        "found = 1",
        "self._told = 1",
        "for found in (): pass",
        "if (told := 1): pass",
        "def call(found): pass",
        "lambda told: told",
        "class _Found: pass",
        "async def told(): pass",
        "import re as found",
        "match 1:\n    case [*found]: pass",
    ],
)
def test_each_kind_of_name_is_seen(tmp_path: Path, line: str) -> None:
    (tmp_path / "module.py").write_text(f"print(found, each.told)\n{line}\n")
    [seen] = empty_names(tmp_path)
    assert seen.startswith("module.py:")
