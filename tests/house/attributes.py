"""Which module writes whose attributes, in the rooms of sessions.

Types are those that the source names: annotations of parameters and attributes, constructors, and the class
around `self`. Where none says what an object is, an attribute's name tells, if no other class has it.
"""

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(slots=True)
class Class:
    """A class of a session, with what it says of itself."""

    name: str
    module: Path
    bases: list[str]
    attributes: dict[str, str] = field(default_factory=dict)
    """The class of each attribute; empty where none is named."""


@dataclass(frozen=True, slots=True, order=True)
class Write:
    """An attribute that a module assigns, though its class stands in another one."""

    module: str
    owner: str
    attribute: str


class Rooms:
    """The classes of some packages.

    :param folders: the packages of sessions.
    :param others: packages whose objects sessions write by design, such as the engine's operations.
    """

    def __init__(self, folders: Iterable[Path], others: Iterable[Path] = ()) -> None:
        self._trees = _trees(folders)
        self.classes: dict[str, list[Class]] = defaultdict(list)
        self._owners: dict[str, set[str]] = defaultdict(set)
        for each in _classes(self._trees):
            self.classes[each.name].append(each)
            for attribute in each.attributes:
                self._owners[attribute].add(each.name)
        for each in _classes(_trees(others)):
            for attribute in each.attributes:
                self._owners[attribute].add(f"{each.name} of another room")

    def sizes(self) -> dict[str, int]:
        """How many attributes an object of each class has, those of its bases among them."""
        return {
            f"{_package(each.module)} {each.name}": len(self._with_bases(each))
            for classes in self.classes.values()
            for each in classes
        }

    def _with_bases(self, of: Class) -> set[str]:
        inherited = [base for name in of.bases for base in self.classes.get(name, ())]
        return set(of.attributes).union(*map(self._with_bases, inherited))

    def writes(self) -> Iterator[Write]:
        """Assignments of attributes whose class stands in another module."""
        for path, tree in self._trees.items():
            for function, around in _functions(tree):
                types = _parameters(function)
                for node in ast.walk(function):
                    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                        owner = self._owner(node, types, around, path)
                        if owner is not None:
                            yield Write(path.name, owner, node.attr)

    def _owner(self, node: ast.Attribute, types: dict[str, str], around: str, path: Path) -> str | None:
        """The class whose attribute is assigned; None if this module has it, or it is none of a session."""
        if _is_self(node.value):
            return None
        name = self._type(node.value, types, around, path)
        if not name and len(self._owners.get(node.attr, ())) == 1:
            (name,) = self._owners[node.attr]
        found = [each for each in self._of(name, path) if node.attr in self._with_bases(each)]
        return name if found and all(each.module != path for each in found) else None

    def _type(self, node: ast.expr, types: dict[str, str], around: str, path: Path) -> str:
        if isinstance(node, ast.Name):
            return around if node.id == "self" else types.get(node.id, "")
        if isinstance(node, ast.Attribute):
            owner = self._type(node.value, types, around, path)
            return next((each.attributes.get(node.attr, "") for each in self._of(owner, path)), "")
        return ""

    def _of(self, name: str, path: Path) -> list[Class]:
        """Classes of a name: those of the same broker's room, where several rooms have one."""
        classes = self.classes.get(name, [])
        near = [each for each in classes if _package(each.module) == _package(path)]
        return near or classes


def _trees(folders: Iterable[Path]) -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text()) for folder in folders for path in folder.rglob("*.py")}


def _classes(trees: dict[Path, ast.Module]) -> Iterator[Class]:
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                yield _class(node, path)


def _package(path: Path) -> str:
    return next((part for part in reversed(path.parts) if part.startswith("sluicegate")), "")


def _functions(tree: ast.Module) -> Iterator[tuple[ast.FunctionDef, str]]:
    """All functions, each with the class that it stands in."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node, ""
        elif isinstance(node, ast.ClassDef):
            yield from ((each, node.name) for each in node.body if isinstance(each, ast.FunctionDef))


def _class(node: ast.ClassDef, path: Path) -> Class:
    made = Class(node.name, path, [base.id for base in node.bases if isinstance(base, ast.Name)])
    for part in node.body:
        if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
            made.attributes[part.target.id] = _named(part.annotation)  # a field of a dataclass or tuple
        elif isinstance(part, ast.FunctionDef):
            types = _parameters(part)
            for statement in ast.walk(part):
                for attribute, kind in _assigned(statement, types):
                    if kind or attribute not in made.attributes:
                        made.attributes[attribute] = kind
    return made


def _assigned(statement: ast.AST, types: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Attributes of `self` that a statement assigns, each with its class."""
    targets: list[ast.expr]
    if isinstance(statement, ast.AnnAssign):
        targets, kind = [statement.target], _named(statement.annotation)
    elif isinstance(statement, ast.Assign):
        targets, kind = statement.targets, _made_by(statement.value, types)
    elif isinstance(statement, ast.AugAssign):
        targets, kind = [statement.target], ""
    else:
        return
    for target in targets:
        for each in target.elts if isinstance(target, ast.Tuple) else (target,):
            if isinstance(each, ast.Attribute) and _is_self(each.value):
                yield each.attr, kind


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def _parameters(function: ast.FunctionDef) -> dict[str, str]:
    """Classes of parameters, and of local variables that a constructor makes."""
    arguments = (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
    types = {each.arg: _named(each.annotation) for each in arguments if each.annotation is not None}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            made = _made_by(node.value, types)
            if made:
                types[node.targets[0].id] = made
    return types


def _named(annotation: ast.expr) -> str:
    """The class that an annotation names: `Producer`, `"Producer"`, `Producer | None`."""
    text = ast.unparse(annotation).strip("'\"").removesuffix(" | None")
    return text if text.isidentifier() else ""


def _made_by(value: ast.expr, types: dict[str, str]) -> str:
    if isinstance(value, ast.Name):
        return types.get(value.id, "")
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id[:1].isupper():
        return value.func.id
    return ""
