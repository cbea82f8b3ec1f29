"""Environment variables that override the file: `SLUICEGATE__ADMIN__PORT=9100`."""

from collections.abc import Mapping
from dataclasses import replace

from sluicegate.config.errors import ConfigErrors, Finding
from sluicegate.config.secrets import hides
from sluicegate.config.tree import Entry, Location, Node, SourceText, parse

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
            location = Location(SourceText(name), 0, 0)
            errors.append(location.error((), f"{name!r} names no value", f"write {PREFIX}SECTION__KEY=value"))
            continue
        try:
            value = _read(text, name, root.location.source.secrets, errors, is_secret=hides(steps))
            root = _put(
                root, steps, value, value.location._replace(line=0, column=0, length=max(1, len(text)))
            )
        except ConfigErrors as refused:
            errors.extend(refused.errors)
    return root


def _read(text: str, name: str, secrets: set[str], errors: list[Finding], *, is_secret: bool) -> Node:
    if not text.strip():
        return Node(Location(SourceText(name), 0, 0))
    try:
        return parse(text, name, errors, secrets=secrets, is_secret=is_secret)
    except ConfigErrors:
        if not is_secret:
            raise
        remedy = "put quotes around it inside the variable, so that it is parsed as text"
        location = Location(SourceText(name), 0, 0)
        raise ConfigErrors([location.error((), "the value is not YAML", remedy)]) from None


def _put(node: Node, steps: tuple[str, ...], value: Node, location: Location) -> Node:
    """Copy `node` with `value` at the path `steps`. Other branches are shared with the original."""
    if not steps:
        return value
    step, rest = steps[0], steps[1:]
    if node.items is not None:
        index = int(step) if step.isdecimal() and len(step) < 6 else -1
        if not 0 <= index <= len(node.items):
            raise ConfigErrors(
                [location.error((), f"{step!r} is not an entry of the list", f"use 0 to {len(node.items)}")]
            )
        items = [*node.items, Node(location, entries={})] if index == len(node.items) else list(node.items)
        items[index] = _put(items[index], rest, value, location)
        return replace(node, items=items)
    if node.entries is None and node.scalar is not None:
        raise ConfigErrors([location.error((), f"no section can contain {step!r}", "check the name")])
    entries = dict(node.entries or {})
    old = entries[step].node if step in entries else Node(location)
    entries[step] = Entry(location, _put(old, rest, value, location))
    return replace(node, scalar=None, entries=entries)
