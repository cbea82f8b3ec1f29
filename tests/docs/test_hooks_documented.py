"""The reference of hooks cannot drift: every hook has its heading, its example and its test."""

import importlib.util
import inspect
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from sluicegate import hooks

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = (ROOT / "docs" / "hooks.md").read_text()
HOOKS = {
    name: function for name, function in vars(hooks).items() if hasattr(function, f"{hooks.PROJECT}_spec")
}
PARTS = ["When:", "Order:", "Thread:", "Cost:", "An error:"]
"""What each section begins with, one line each."""
_SPEC = importlib.util.spec_from_file_location("embed_examples", ROOT / "docs" / "embed_examples.py")
assert _SPEC is not None
assert _SPEC.loader is not None
embed_examples: Any = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(embed_examples)


def section(hook: str) -> str:
    """The text of a hook's section, from its heading to the next."""
    found = re.search(rf"^## {hook}\(.*?(?=^## |\Z)", REFERENCE, re.DOTALL | re.MULTILINE)
    assert found is not None, f"docs/hooks.md has no section for {hook}"
    return found[0]


@cache
def hook_tests() -> set[str]:
    """The names of all test functions about hooks, found without importing anything."""
    return {
        name
        for file in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^ *(?:async )?def (test_hook_\w+)\(", file.read_text(), re.MULTILINE)
    }


def test_there_are_hooks() -> None:
    assert "sluicegate_policy_checks" in HOOKS


@pytest.mark.parametrize("name", HOOKS)
def test_every_hook_is_documented_with_its_arguments(name: str) -> None:
    arguments = list(inspect.signature(HOOKS[name]).parameters)
    heading, *rest = section(name).splitlines()

    assert heading == f"## {name}({', '.join(arguments)})"
    assert [line.split("**")[1] for line in rest if line.startswith(("**", "- **"))][:5] == PARTS
    for argument in arguments:
        assert any(line.startswith(f"| `{argument}` |") for line in rest), f"{argument} is not explained"


@pytest.mark.parametrize("name", HOOKS)
def test_every_hook_has_an_example_that_implements_it(name: str) -> None:
    [example] = embed_examples.embedded(section(name))

    text = (ROOT / example).read_text()
    assert f"\n@hookimpl\ndef {name}(" in text
    assert len(text.splitlines()) <= 30


@pytest.mark.parametrize("name", HOOKS)
def test_every_hook_has_a_test(name: str) -> None:
    assert f"test_hook_{name}" in hook_tests()


def test_no_section_and_no_test_is_about_a_hook_that_is_gone() -> None:
    assert set(re.findall(r"^## (sluicegate_\w+)\(", REFERENCE, re.MULTILINE)) == set(HOOKS)
    about = {name: [hook for hook in HOOKS if name.startswith(f"test_hook_{hook}")] for name in hook_tests()}
    assert [name for name, found in about.items() if not found] == []


@pytest.mark.parametrize("document", sorted(path.name for path in (ROOT / "docs").glob("*.md")))
def test_embedded_examples_are_the_files_text(document: str) -> None:
    text = (ROOT / "docs" / document).read_text()

    assert embed_examples.embed(text) == text, "run `python docs/embed_examples.py`"


def test_every_example_of_a_hook_is_embedded() -> None:
    files = {str(path.relative_to(ROOT)) for path in (ROOT / "examples" / "hooks").glob("*.py")}

    assert set(embed_examples.embedded(REFERENCE)) == files
