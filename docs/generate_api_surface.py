"""Records the public interface in docs/api-surface.txt: names, signatures and fields.

Run `python docs/generate_api_surface.py` after a change of it, and read the difference: what is added needs a
larger minor `API_VERSION`, what is changed or gone needs what docs/api.md says of deprecation.

Definitions are read from the source, so that the record is the same on every version of Python.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from sluicegate.api import PROVISIONAL

RECORD = Path(__file__).resolve().parent / "api-surface.txt"
API = "sluicegate.api"
MODULES = (API, "sluicegate.testing", "sluicegate.testing.fixtures", "sluicegate.testing.store_contract")
"""Modules whose public names are recorded; those of hooks follow."""
HOOKS = "sluicegate.hooks"
_OURS = "sluicegate"
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Found:
    """Where a name is defined."""

    module: str
    node: ast.stmt


@cache
def _tree(module: str) -> ast.Module:
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(module)
    return ast.parse(Path(spec.origin).read_text())


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements of a module, those for type checkers alone too."""
    for node in body:
        if isinstance(node, ast.If):
            yield from _statements(node.body)
        else:
            yield node


def find(module: str, name: str) -> Found | None:
    """The definition of a name, followed through imports; None if it is not this project's."""
    for node in _statements(_tree(module).body):
        if name in _targets(node):
            return Found(module, node)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(_OURS):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return find(node.module, alias.name)
    return None


def _targets(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return [node.name]
    if isinstance(node, ast.AnnAssign):
        return [ast.unparse(node.target)]
    return [ast.unparse(target) for target in node.targets] if isinstance(node, ast.Assign) else []


def public_names(module: str) -> list[str]:
    """What `__all__` of a module lists, else its public definitions."""
    for node in _tree(module).body:
        if "__all__" in _targets(node) and isinstance(node, ast.Assign):
            listed: list[str] = ast.literal_eval(node.value)
            return sorted(listed)
    return sorted(name for node in _tree(module).body for name in _targets(node) if name[0] != "_")


def _signature(node: _Function) -> str:
    is_property = any("property" in ast.unparse(each) for each in node.decorator_list)
    returns = f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""
    if is_property:
        return f"{node.name}{returns.replace(' ->', ':')}"
    others = [f"@{ast.unparse(each)} " for each in node.decorator_list]
    word = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    return f"{''.join(others)}{word} {node.name}({ast.unparse(node.args)}){returns}"


def _is_public(name: str) -> bool:
    return not name.startswith("_") or name in ("__init__", "__call__", "__enter__", "__aenter__")


def _members(module: str, node: ast.ClassDef) -> dict[str, str]:
    """Public members by name, inherited ones of this project's classes too."""
    found: dict[str, str] = {}
    for base in node.bases:
        above = find(module, ast.unparse(base))
        if above is not None and isinstance(above.node, ast.ClassDef):
            found |= _members(above.module, above.node)
    for each in node.body:
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
            if _is_public(each.name):
                found[each.name] = _signature(each)
            if each.name == "__init__":
                found |= dict(_assigned(each))
        elif isinstance(each, ast.AnnAssign | ast.Assign):
            found |= {name: _field(each) for name in _targets(each) if _is_public(name)}
    return found


def _field(node: ast.AnnAssign | ast.Assign) -> str:
    """A field without the words that describe it."""
    if isinstance(node.value, ast.Call):
        node.value.keywords = [each for each in node.value.keywords if each.arg != "description"]
    return ast.unparse(node)


def _assigned(node: _Function) -> Iterator[tuple[str, str]]:
    """Public attributes that a constructor sets."""
    for each in ast.walk(node):
        if isinstance(each, ast.Assign | ast.AnnAssign):
            for target in _targets(each):
                name = target.removeprefix("self.")
                if name != target and name.isidentifier() and _is_public(name):
                    kind = f": {ast.unparse(each.annotation)}" if isinstance(each, ast.AnnAssign) else ""
                    yield name, f"{name}{kind}"


def describe(found: Found) -> list[str]:
    """The lines of one definition."""
    node = found.node
    if isinstance(node, ast.ClassDef):
        decorators = "".join(f"@{ast.unparse(each)} " for each in node.decorator_list)
        bases = f"({', '.join(ast.unparse(base) for base in node.bases)})" if node.bases else ""
        members = _members(found.module, node)
        # The order of a data class's fields is that of its arguments.
        names = list(members) if "dataclass" in decorators else sorted(members)
        return [
            f"{decorators}class {node.name}{bases}",
            *(f"    {members[name]}" for name in names),
        ]
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return [_signature(node)]
    return [ast.unparse(node)]


def _hooks() -> Iterator[str]:
    for node in _tree(HOOKS).body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("sluicegate_"):
            yield _signature(node)


def render() -> str:
    """The whole record."""
    lines = [
        "# Generated by docs/generate_api_surface.py: the public interface, as docs/api.md describes it."
    ]
    for module in MODULES:
        lines += ["", f"[{module}]"]
        for name in public_names(module):
            if name == "PROVISIONAL":
                continue
            found = find(module, name)
            if found is None:
                raise LookupError(f"{module}.{name} is defined nowhere in this project")
            if module == API and name in PROVISIONAL:
                lines.append("# provisional")
            lines += describe(found)
    return "\n".join([*lines, "", "[hooks]", *_hooks(), ""])


if __name__ == "__main__":
    RECORD.write_text(render())
