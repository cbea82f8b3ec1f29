"""Files and functions of the product stay small enough to be read at once."""

import ast
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from tests.house.test_names import PACKAGES, ROOT

MOST_LINES, MOST_LINES_OF_HALF, MOST_LINES_OF_A_FUNCTION = 450, 110, 45
# Functions that are longer. Each part of this one would be one more call per message.
LONG = {"plugins/kafka/sluicegate_kafka/session/producing/repeated.py again"}


def modules() -> Iterator[Path]:
    """All modules of the product but those that a compiler made."""
    for package in PACKAGES:
        yield from (module for module in package.rglob("*.py") if "_pb2" not in module.name)


def long_functions(module: Path) -> Iterator[str]:
    """Functions of a module that are longer than the bound."""
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            if node.end_lineno - node.lineno >= MOST_LINES_OF_A_FUNCTION:
                yield node.name


def test_no_module_is_long_and_half_of_them_are_short() -> None:
    lines = {module: len(module.read_text().splitlines()) for module in modules()}
    assert {module: count for module, count in lines.items() if count > MOST_LINES} == {}
    assert median(lines.values()) <= MOST_LINES_OF_HALF


def test_no_function_is_long() -> None:
    found = {f"{module.relative_to(ROOT)} {name}" for module in modules() for name in long_functions(module)}
    assert found == LONG


def test_a_long_function_is_found(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    body = "    pass\n" * (MOST_LINES_OF_A_FUNCTION - 1)
    module.write_text(f"def short():\n{body}\n\nasync def long():\n{body}    pass\n")
    assert list(long_functions(module)) == ["long"]
