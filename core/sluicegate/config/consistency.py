"""Errors that involve several values: duplicate names, locks on unset fields, fields at the wrong level."""

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from sluicegate.config.errors import Finding
from sluicegate.config.fields import PolicyFields
from sluicegate.config.tree import Node
from sluicegate.config.validation import Path, suggest

LevelNode: TypeAlias = tuple[Path, Node]
"""A mapping of the file that sets policies, after its path."""


def inconsistencies(root: Node, levels: Iterable[LevelNode], fields: PolicyFields) -> Iterator[Finding]:
    """Find errors that the models cannot detect. Also works on files that have other errors.

    :param root: the whole file.
    :param levels: its `policy_levels`.
    :param fields: all known policy fields.
    """
    yield from _duplicate_names(root, ("brokers",))
    yield from _exempt_policies(root, fields)
    for path, level in levels:
        yield from _locks(level, path, fields)
        yield from _ceilings(level, path)
        if path[1] != "broker":
            yield from _broker_only(level, path, fields)
    for section in ("namespaces", "topics"):
        yield from _duplicate_names(root, ("policies", section))


def policy_levels(root: Node) -> Iterator[LevelNode]:
    """Every mapping of the file that sets policies, with its path."""
    broker = root.child("policies", "broker")
    if broker is not None and broker.entries is not None:
        yield ("policies", "broker"), broker
    for section in ("namespaces", "topics"):
        for index, node in enumerate(root.listed("policies", section)):
            if node.entries is not None:
                yield ("policies", section, index), node


def _duplicate_names(root: Node, path: Path) -> Iterator[Finding]:
    first: dict[object, int] = {}
    for index, node in enumerate(root.listed(*path)):
        name = node.child("name")
        if name is None or not isinstance(name.scalar, str):
            continue
        if name.scalar in first:
            yield name.place.error(
                (*path, index, "name"),
                f"duplicate name {name.scalar!r}",
                f"first used in line {first[name.scalar]}: merge both entries",
            )
        first.setdefault(name.scalar, name.place.line + 1)


def _exempt_policies(root: Node, fields: PolicyFields) -> Iterator[Finding]:
    for index, node in enumerate(root.listed("brokers")):
        for place, name in enumerate(node.listed("exempt", "policies")):
            if isinstance(name.scalar, str) and fields.infos and name.scalar not in fields.policies:
                path = ("brokers", index, "exempt", "policies", place)
                message = f"unknown policy {name.scalar!r}"
                yield name.place.error(path, message, suggest(name.scalar, fields.policies))


def remove_duplicate_aliases(levels: Iterable[LevelNode], fields: PolicyFields) -> Iterator[Finding]:
    """Find fields that are set under both their names, and keep only the canonical one.

    The level's other values can be checked in the same pass only after one of the two is removed.
    """
    for path, level in levels:
        for alias, name in fields.aliases.items():
            entries = level.entries or {}
            if alias in entries and name in entries:
                message = f"{alias!r} and {name!r} are the same field"
                yield entries.pop(alias).key.error((*path, alias), message, "keep one of them")


def _locks(level: Node, path: Path, fields: PolicyFields) -> Iterator[Finding]:
    for index, node in enumerate(level.listed("locked")):
        name = node.scalar
        if name in fields.settings and isinstance(name, str) and not _is_set(level, name, fields):
            yield node.place.error(
                (*path, "locked", index),
                f"{name!r} is locked but not set here",
                "set it beside the lock (0 for unlimited)",
            )


def _is_set(level: Node, name: str, fields: PolicyFields) -> bool:
    option, _, policy = name.partition(".")
    if policy:
        node = level.child(option)
        return node is not None and (isinstance(node.scalar, bool) or node.child(policy) is not None)
    return any(
        (node := level.child(each)) is not None and node.scalar is not None for each in fields.names_of(name)
    )


def _ceilings(level: Node, path: Path) -> Iterator[Finding]:
    ceiling = level.child("ceiling")
    for name, entry in ((ceiling.entries or {}) if ceiling else {}).items():
        if entry.node.scalar == 0 and not isinstance(entry.node.scalar, bool):
            message = "a ceiling of 0 (unlimited) limits nothing"
            yield entry.node.place.error((*path, "ceiling", name), message, "remove it, or set a limit")


def _broker_only(level: Node, path: Path, fields: PolicyFields) -> Iterator[Finding]:
    for name, entry in (level.entries or {}).items():
        if fields.aliases.get(name, name) in fields.broker_only:
            message = f"{name!r} applies to a whole broker, not to one {str(path[1])[:-1]}"
            yield entry.key.error((*path, name), message, "move it to policies.broker")
