"""Events and reasons for closing are declared in tables, used only through them, and documented from them."""

import ast
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
_SPEC = importlib.util.spec_from_file_location("generate_events", DOCS / "generate_events.py")
assert _SPEC is not None
assert _SPEC.loader is not None
generate_events: Any = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(generate_events)

TABLES = {
    table.__name__: table
    for table in (
        *generate_events.OF_EACH,
        *(table for room in generate_events.ROOMS.values() for tables in room for table in tables),
    )
}
ROOMS = ["core/sluicegate/net", "core/sluicegate/processes", "core/sluicegate/sessions"]
ROOMS += ["plugins/kafka", "plugins/pulsar", "plugins/danube", "interceptors"]


def modules(*folders: str) -> Iterator[tuple[str, ast.Module]]:
    """The modules below folders, with their paths."""
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if not path.name.endswith("_pb2.py"):
                yield path.relative_to(ROOT).as_posix(), ast.parse(path.read_text())


def counted_by_hand(module: ast.Module) -> Iterator[str]:
    """What adds to `counts` outside of the method `count`, which takes members of tables alone."""
    own = {
        id(node)
        for function in ast.walk(module)
        if isinstance(function, ast.FunctionDef) and function.name == "count"
        for node in ast.walk(function)
    }
    for node in ast.walk(module):
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Subscript) and id(node) not in own:
            counts = node.target.value
            if isinstance(counts, ast.Attribute) and counts.attr == "counts":
                yield ast.unparse(node.target)


def test_the_list_is_what_the_tables_say() -> None:
    text = (DOCS / "events.md").read_text()
    assert text == generate_events.render(), "run `python docs/generate_events.py`"
    for label in ("attached_after_close", "consumer_overfull", "hold_timed_out", "window_exceeded"):
        assert f"| `{label}` |" in text


def test_every_table_is_documented() -> None:
    bases = {"CountedEvent", "CloseReason"}
    declared = {
        node.name
        for _, module in modules("core", "interceptors", "plugins", "reports")
        for node in ast.walk(module)
        if isinstance(node, ast.ClassDef) and bases & {ast.unparse(base) for base in node.bases}
    }
    assert declared == TABLES.keys()


@pytest.mark.parametrize("name", TABLES)
def test_every_label_has_a_meaning_of_its_own(name: str) -> None:
    meanings = [each.meaning for each in TABLES[name]]
    assert [text for text in meanings if not (text[0].isupper() and text.endswith("."))] == []
    assert len(set(meanings)) == len(meanings)


def test_every_label_is_used() -> None:
    used = {
        (node.value.id, node.attr)
        for _, module in modules(*ROOMS)
        for node in ast.walk(module)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    }
    unused = [
        f"{name}.{each.name}"
        for name, table in TABLES.items()
        for each in table
        if (name, each.name) not in used
    ]
    assert unused == []


def test_nothing_is_counted_past_the_tables() -> None:
    """mypy finds a label that no table declares where `count` and `Close` are called."""
    by_hand = [f"{path}: {text}" for path, module in modules(*ROOMS) for text in counted_by_hand(module)]
    assert by_hand == []


def test_what_is_counted_by_hand_is_found() -> None:
    method = "def count(self, event):\n    self.counts[event] += 1\n"
    past_it = "def send(self):\n    self.shared.counts['x'] += 1\n"
    assert list(counted_by_hand(ast.parse(method + past_it))) == ["self.shared.counts['x']"]
