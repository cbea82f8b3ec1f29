"""Translates pydantic's errors into findings that point into the file."""

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from sluicegate.config.descriptions import descriptions
from sluicegate.config.errors import Finding
from sluicegate.config.fields import models_in
from sluicegate.config.models import PolicyModel
from sluicegate.config.secrets import hides, resembles_secret, shown_key, shown_text, shown_value
from sluicegate.config.tree import Location, Node

Path = tuple[str | int, ...]

_EXPECTED = {
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "text",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "a mapping (key: value)",
    "model_type": "a mapping (key: value)",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
}
_BOUNDS = {"ge": "not below", "gt": "above", "le": "up to", "lt": "below"}
"""The words for a bound in a remedy, by pydantic's name of it."""
_MANY = 12
"""Most names that one remedy lists."""
_NUMBER = re.compile(r"-?[0-9]{1,20}(\.[0-9]{1,20})?")


def translate(error: ValidationError, root: Node, model: type[BaseModel]) -> list[Finding]:
    """Locate each of pydantic's errors in the file and rephrase it.

    :param error: raised by validating the plain form of `root` against `model`.
    :return: one finding for each mistake.
    """
    details = error.errors(include_url=False)
    for detail in details:
        _hide_unknown(detail, root, model)
    paths = [tuple(detail["loc"]) for detail in details]
    findings = []
    for detail, loc in zip(details, paths, strict=True):
        # Pydantic counts a list as empty if it refused all entries; that is not a second mistake.
        implied = detail["type"] == "too_short" and any(p[: len(loc)] == loc and p != loc for p in paths)
        if not implied:
            findings.append(_translate(detail, root, model))
    return findings


def first_problem(error: ValueError) -> str:
    """What is wrong with a value that stands in no file, such as an option of a command.

    :param error: what validating it raised.
    """
    return str(error.errors()[0]["msg"]) if isinstance(error, ValidationError) else str(error)


def _hide_unknown(detail: ErrorDetails, root: Node, model: type[BaseModel]) -> None:
    """Hide the value of an unknown key, unless the key is misspelt or misplaced and means no secret."""
    if detail["type"] != "extra_forbidden":
        return
    parent, _, path = locate(root, detail["loc"][:-1], model)
    name = str(detail["loc"][-1])
    entry = (parent.entries or {}).get(name)
    meant = _closest(name, keys_at(model, path, root))
    if not meant and _move(name, path, model, root):
        meant = name  # it is known elsewhere, so what it holds is, too
    if entry is not None and (not meant or resembles_secret(meant)):
        entry.hide()


def _translate(detail: ErrorDetails, root: Node, model: type[BaseModel]) -> Finding:
    node, key, path = locate(root, detail["loc"], model)
    kind = detail["type"]
    if kind == "missing":
        name = str(detail["loc"][-1])
        return (key or node.location).error(path, f"missing key {name!r}", f"add '{name}:'")
    if kind == "extra_forbidden":
        name = str(path[-1])
        remedy = _move(name, path[:-1], model, root) or suggest(name, keys_at(model, path[:-1], root))
        return (key or node.location).error(path, f"unknown key {shown_key(name)!r}", remedy)
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        return _unknown_system(detail, node, key, path)
    if hides(path):
        name = next(step for step in path if isinstance(step, str) and resembles_secret(step))
        return node.location.error(
            path, f"{shown_key(name)!r} has an unexpected value", "write text in quotes"
        )
    message, remedy = _word(detail, path, keys_at(model, path[:-1], root))
    # A section has no text of its own to underline, so its key is underlined.
    inside = node.location if key is None or (node.entries is None and node.items is None) else key
    if node.scalar is None and key is not None:
        inside = key
    return inside.error(path, message, remedy or _remedy_of_kind(detail, path, model, root))


_SECTIONS: Sequence[Path] = (("policies",), ("policies", "broker"), ("brokers", 0), ())
"""Where keys are looked for that stand in another of these sections."""


def _move(name: str, path: Path, model: type[BaseModel], root: Node) -> str:
    """The remedy for a key that is valid in another section; empty if there is none.

    :param path: of the section in which it stands.
    """
    is_entry = len(path) == _ENTRY_OF_LEVEL and path[0] == "policies"
    if not is_entry and path not in _SECTIONS and path[:1] != ("brokers",):
        return ""
    if name == "<<":
        return "YAML's merge keys are not supported: write the keys themselves"
    for section in _SECTIONS:
        if name in keys_at(model, section, root):
            return f"move it to {'.'.join(map(str, section)) or 'the top level of the file'}"
    return ""


_ENTRY_OF_LEVEL = 3
"""Steps to an entry of a namespace or topic: policies, topics, 0."""


def _word(detail: ErrorDetails, path: Path, known: Sequence[str]) -> tuple[str, str]:
    """The message, and the remedy if the error itself determines it."""
    kind, context = detail["type"], detail.get("ctx") or {}
    if kind == "sluicegate":
        return str(context["problem"]), _sibling(detail, path, known) or str(context["remedy"])
    shown = _show(detail["input"])
    if kind in _EXPECTED:
        return f"expected {_EXPECTED[kind]}, got {shown}", ""
    if kind == "literal_error":
        return _word_choice(detail["input"], str(context["expected"]))
    if kind == "too_short":
        return "at least one entry is needed", ""
    if kind == "string_pattern_mismatch":
        return f"{shown} is not valid here", ""
    text = detail["msg"]
    text = text.removeprefix("Value error, ")
    text = text.replace("Input should be", "must be")
    return f"{text[:1].lower()}{text[1:]}, got {shown}", ""


def _sibling(detail: ErrorDetails, path: Path, known: Sequence[str]) -> str:
    """The remedy for a value that belongs into a related field."""
    ending = (detail.get("ctx") or {}).get("sibling")
    name = str(path[-1]) if path else ""
    fits = [key for key in known if ending and key in (ending, f"{name.removesuffix('_msg')}_{ending}")]
    return (
        f"{name!r} counts messages; for {ending} write '{fits[0]}: {shown_text(str(detail['input']))}'"
        if fits
        else ""
    )


def _remedy_of_kind(detail: ErrorDetails, path: Path, model: type[BaseModel], root: Node) -> str:
    """The remedy for a kind of error; as a last resort the description of the field."""
    kind, value, key = detail["type"], detail["input"], str(path[-1]) if path else ""
    if kind in ("tuple_type", "list_type"):
        if isinstance(value, Mapping):
            is_named = "name" in keys_at(model, (*path, 0), root)
            entry = f"name: {shown_key(str(next(iter(value), 'NAME')))}" if is_named else "…"
            return f"write a list: each entry begins with '- {entry}'"
        if not isinstance(value, str | int | float):
            return "write a list"
        parts = ", ".join(f'"{part.strip()}"' for part in shown_text(str(value)).split(","))
        return f"write a list: {key}: [{parts}]"
    if kind in ("model_type", "dict_type"):
        known = keys_at(model, path, root)
        if 0 < len(known) <= _MANY:
            return f"write its keys below it: {', '.join(known)}"
        return "write 'key: value' below it; 'sluicegate schema' prints all valid names"
    if kind in ("int_type", "float_type") and isinstance(value, str) and _NUMBER.fullmatch(value):
        return f"write it without quotes: {value}"
    if kind == "string_type" and isinstance(value, bool | int | float):
        return f'put it in quotes: "{str(value).lower()}"'
    if kind.startswith("bool"):
        return "write true or false, without quotes"
    limits = (detail.get("ctx") or {}).items()
    bounds = [f"{_BOUNDS[name]} {limit}" for name, limit in limits if name in _BOUNDS]
    return f"write a number {' and '.join(bounds)}" if bounds else _description(model, path, root)


def _description(model: type[BaseModel], path: Path, root: Node) -> str:
    """The schema's description of the closest described field."""
    for end in range(len(path), 0, -1):
        for each in models_at(model, path[: end - 1], root):
            if text := descriptions(each).get(str(path[end - 1])):
                return f"expected here: {text}"
    return "'sluicegate schema' prints what is valid here"


def _word_choice(value: object, expected: str) -> tuple[str, str]:
    choices = [choice.strip().strip("'") for choice in expected.replace(" or ", ", ").split(",")]
    message = f"{_show(value)} is not valid here: expected {expected}"
    if value == "drop":
        return (
            message,
            "only unacknowledged traffic can be dropped: publishing with acks=0, non-reliable dispatch",
        )
    return message, suggest(str(value), choices)


def _unknown_system(detail: ErrorDetails, node: Node, key: Location | None, path: Path) -> Finding:
    context = detail.get("ctx") or {}
    system = node.child("system")
    if system is None:
        return node.location.error(
            path, "missing key 'system'", "name the kind of broker, such as system: kafka"
        )
    expected = str(context.get("expected_tags", ""))
    systems = [name.strip(" '") for name in expected.split(",")]
    remedy = suggest(str(system.scalar), systems) or f"known systems: {', '.join(systems)}"
    return system.location.error((*path, "system"), f"unknown system {_show(system.scalar)}", remedy)


def locate(
    root: Node, loc: Sequence[str | int], model: type[BaseModel]
) -> tuple[Node, Location | None, Path]:
    """Find the value that one of pydantic's locations refers to, or its closest parent in the file.

    Pydantic's locations include steps that are not in the file, such as the chosen member of a union or the
    canonical name of an alias. These are skipped.

    :return: the value, the location of its key (None in lists), and its path in the file.
    """
    node = root
    key: Location | None = None
    path: Path = ()
    for step in loc:
        name = step
        if node.entries is not None and step not in node.entries:
            aliases = [a for a in _aliases(model, path, root) if a[1] == step and a[0] in node.entries]
            name = aliases[0][0] if aliases else step
        child = node.child(name)
        if child is None:
            continue
        key, node, path = node.key(name), child, (*path, name)
    return node, key, path


def _aliases(model: type[BaseModel], path: Path, root: Node) -> Iterable[tuple[str, str]]:
    for each in models_at(model, path, root):
        if issubclass(each, PolicyModel):
            yield from each.aliases.items()


def models_at(model: type[BaseModel], path: Path, root: Node) -> list[type[BaseModel]]:
    """The models of the mapping at a path; several if the file does not determine which one."""
    models = [model]
    node: Node | None = root
    for step in path:
        node = node.child(step) if node is not None else None
        if isinstance(step, int):
            tag = node.child("system") if node is not None else None
            models = _tagged(models, tag.scalar) if tag is not None else models
            continue
        models = [
            inner
            for outer in models
            if step in outer.model_fields
            for inner in models_in(outer.model_fields[step].annotation)
        ]
    return models


def _tagged(models: list[type[BaseModel]], system: object) -> list[type[BaseModel]]:
    tagged = [model for model in models if "system" in model.model_fields]
    return [m for m in tagged if system in get_args(m.model_fields["system"].annotation)] or models


def keys_at(model: type[BaseModel], path: Path, root: Node) -> list[str]:
    """The valid keys of the mapping at a path."""
    known: dict[str, None] = {}
    for each in models_at(model, path, root):
        known.update(dict.fromkeys(each.model_fields))
        if issubclass(each, PolicyModel):
            known.update(dict.fromkeys(each.aliases))
    return list(known)


def suggest(name: str, known: Sequence[str]) -> str:
    """A remedy for an unknown name: the closest known name, or all known names if they are few."""
    if close := _closest(name, known):
        return f"did you mean {close!r}?"
    if 0 < len(known) <= _MANY:
        return f"known here: {', '.join(known)}"
    return "'sluicegate schema' prints all valid names"


def _closest(name: str, known: Sequence[str]) -> str:
    """The known name that is spelt most alike, else the only one that begins with it; empty if none is."""
    close = difflib.get_close_matches(name[:100], known, n=1)
    if not close:
        close = [each for each in known if name and each.startswith(f"{name}_")]
    return close[0] if len(close) == 1 else ""


def _show(value: Any) -> str:
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    return "nothing" if value is None else shown_value(value)
