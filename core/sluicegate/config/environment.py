"""Environment variables that override the file: `SLUICEGATE__ADMIN__PORT=9100`."""

from collections.abc import Mapping
from dataclasses import replace

from sluicegate.config.errors import ConfigErrors, Finding
from sluicegate.config.secrets import hides
from sluicegate.config.tree import Entry, Node, Place, SourceText, parse

PREFIX = "SLUICEGATE__"


def overrides(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables with the prefix, in the order in which `override` applies them."""
    return {name: environ[name] for name in sorted(environ) if name.startswith(PREFIX)}


def override(root: Node, environ: Mapping[str, str], errors: list[Finding]) -> Node:
    """Apply all overrides to the tree of a file.

    A variable's name is the path in capitals, with `__` between the steps. List entries are numbered from 0;
    the next free number appends. The value is parsed as YAML: `9100`, `true`, `["a:9092"]`.

    :param root: the file; not modified.
    :param environ: the process's environment.
    :param errors: receives an error for each variable that cannot be applied.
    :return: the tree to validate.
    """
    for name, text in overrides(environ).items():
        steps = tuple(step.lower() for step in name.removeprefix(PREFIX).split("__"))
        if not all(steps):
            place = Place(SourceText(name), 0, 0)
            errors.append(place.error((), f"{name!r} names no value", f"write {PREFIX}SECTION__KEY=value"))
            continue
        try:
            value = _read(text, name, root.place.source.secrets, errors, is_secret=hides(steps))
            root = _put(root, steps, value, value.place._replace(line=0, column=0, length=max(1, len(text))))
        except ConfigErrors as refused:
            errors.extend(refused.errors)
    return root


def _read(text: str, name: str, secrets: set[str], errors: list[Finding], *, is_secret: bool) -> Node:
    if not text.strip():
        return Node(Place(SourceText(name), 0, 0))
    try:
        return parse(text, name, errors, secrets=secrets, is_secret=is_secret)
    except ConfigErrors:
        if not is_secret:
            raise
        remedy = "put quotes around it inside the variable, so that it is parsed as text"
        place = Place(SourceText(name), 0, 0)
        raise ConfigErrors([place.error((), "the value is not YAML", remedy)]) from None


def _put(node: Node, steps: tuple[str, ...], value: Node, place: Place) -> Node:
    """Copy `node` with `value` at the path `steps`. Other branches are shared with the original."""
    if not steps:
        return value
    step, rest = steps[0], steps[1:]
    if node.items is not None:
        index = int(step) if step.isdecimal() and len(step) < 6 else -1
        if not 0 <= index <= len(node.items):
            raise ConfigErrors(
                [place.error((), f"{step!r} is not an entry of the list", f"use 0 to {len(node.items)}")]
            )
        items = [*node.items, Node(place, entries={})] if index == len(node.items) else list(node.items)
        items[index] = _put(items[index], rest, value, place)
        return replace(node, items=items)
    if node.entries is None and node.scalar is not None:
        raise ConfigErrors([place.error((), f"no section can contain {step!r}", "check the name")])
    entries = dict(node.entries or {})
    old = entries[step].node if step in entries else Node(place)
    entries[step] = Entry(place, _put(old, rest, value, place))
    return replace(node, scalar=None, entries=entries)
