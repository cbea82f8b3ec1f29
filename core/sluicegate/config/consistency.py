"""Errors that involve several values: duplicate names, locks on unset fields, fields at the wrong level."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from sluicegate.config.errors import Finding
from sluicegate.config.fields import PolicyFields
from sluicegate.config.models import BrokerConfig
from sluicegate.config.scopes import FOR, ScopeNames
from sluicegate.config.tree import Entry, Node
from sluicegate.config.validation import Path, suggest
from sluicegate.model import Level, Scope


class LevelNode(NamedTuple):
    """A mapping of the file that sets policies."""

    path: Path
    node: Node
    section: str
    """Its key of `policies:`, one of `SECTIONS`."""
    broker: int | None = None
    """Path of the broker's entry that it is for; None for all brokers."""

    @property
    def scope(self) -> Node | None:
        """Its `for`; None if it is for everybody."""
        return _value(self.node, FOR)


SECTIONS = {
    "broker": Level.BROKER,
    "scopes": Level.BROKER,
    "namespaces": Level.NAMESPACE,
    "topics": Level.TOPIC,
}
"""The keys of `policies:`."""
_REGULAR = re.compile(r"[\\^$+?|()\[\]{}]|\.\*")
"""What shows that a name is meant as a regular expression."""


def inconsistencies(root: Node, levels: Sequence[LevelNode], fields: PolicyFields) -> Iterator[Finding]:
    """Find errors that the models cannot detect. Also works on files that have other errors.

    :param root: the whole file.
    :param levels: its `policy_levels`.
    :param fields: all known policy fields.
    """
    brokers = [(("brokers", index), node) for index, node in enumerate(root.listed("brokers"))]
    yield from _duplicate_names(brokers)
    yield from _exempt_policies(brokers, fields)
    by_list: dict[Path, list[LevelNode]] = {}
    for level in levels:
        yield from _wrong_keys(level, fields)
        by_list.setdefault(level.path[:-1], []).append(level)
    for listed in by_list.values():
        yield from _duplicate_names((each.path, each.node) for each in listed if each.scope is None)


def impossible_names(levels: Iterable[LevelNode], brokers: Sequence[BrokerConfig]) -> Iterator[Finding]:
    """Find policies that never apply, as no broker of the file can have a topic or namespace of that name.

    :param levels: the `policy_levels` of the file.
    :param brokers: all entries of the file.
    """
    for level in levels:
        for path, name, text in _names([(level.path, level.node)]):
            kind = SECTIONS[level.section]
            if kind is Level.BROKER:
                continue  # it has no name, which is another finding
            own = brokers if level.broker is None else brokers[level.broker : level.broker + 1]
            rules = [(broker.system, broker.rule_of_names(kind, text)) for broker in own if text]
            if rules and all(rule for _, rule in rules):
                yield _impossible(path, name, kind.label, text, rules, is_own=level.broker is not None)


def _impossible(
    path: Path, name: Node, label: str, text: str, rules: Sequence[tuple[str, str]], *, is_own: bool
) -> Finding:
    remedy = "; ".join(f"on {system} {rule}" for system, rule in dict.fromkeys(rules))
    if _REGULAR.search(text):
        remedy = f"'*' stands for any characters, and all others for themselves; {remedy}"
    whose = "this broker cannot" if is_own else "no broker of this file can"
    return name.location.error(path, f"{whose} have a {label} {text!r}", remedy)


def impossible_principals(root: Node, brokers: Sequence[tuple[int, BrokerConfig]]) -> Iterator[Finding]:
    """Find principals that no client can have, so that nothing is exempt, has the quota, or is in the scope.

    :param brokers: entries of the file, each with its location.
    """
    entries = _items(_value(root, "brokers"))
    for index, broker in brokers:
        for path, node in _principals(entries[index]):
            rule = broker.rule_of_principals(node.scalar) if isinstance(node.scalar, str) else ""
            if rule:
                message = f"no client of broker {broker.name!r} can have the principal {node.scalar!r}"
                yield node.location.error(("brokers", index, *path), message, rule, "warning")
    for level in policy_levels(root):
        own = [broker for index, broker in brokers if level.broker in (None, index)]
        named = level.scope.listed("principals") if level.scope is not None else ()
        for number, node in enumerate(named):
            name = node.scalar if isinstance(node.scalar, str) else "*"
            rules = [broker.rule_of_principals(name) for broker in own if "*" not in name]
            if rules and all(rules):
                message = f"no client can have the principal {name!r}"
                path = (*level.path, FOR, "principals", number)
                yield node.location.error(path, message, rules[0], "warning")


def _principals(entry: Node) -> Iterator[tuple[Path, Node]]:
    for index, node in enumerate(_items(_value(_value(entry, "exempt"), "principals"))):
        yield ("exempt", "principals", index), node
    for index, quota in enumerate(_items(_value(entry, "quotas"))):
        named = _value(quota, "principal")
        if named is not None:
            yield ("quotas", index, "principal"), named


def _value(node: Node | None, key: str) -> Node | None:
    """What a mapping has under a key; None if it is none, or has not."""
    entry = (node.entries or {}).get(key) if node is not None else None
    return entry.node if entry is not None else None


def _items(node: Node | None) -> Sequence[Node]:
    """The items of a list; none if it is none."""
    return (node.items or ()) if node is not None else ()


def policy_levels(root: Node) -> Iterator[LevelNode]:
    """Every mapping of the file that sets policies."""
    yield from _levels_below(_value(root, "policies"), ("policies",))
    for index, entry in enumerate(root.listed("brokers")):
        yield from _levels_below(_value(entry, "policies"), ("brokers", index, "policies"), index)


def _levels_below(policies: Node | None, above: Path, broker: int | None = None) -> Iterator[LevelNode]:
    for section in SECTIONS:
        path, node = (*above, section), _value(policies, section)
        if node is None:
            continue
        if section != "broker":
            items = enumerate(_items(node))
            yield from (
                LevelNode((*path, index), item, section, broker)
                for index, item in items
                if item.entries is not None
            )
        elif node.entries is not None:
            yield LevelNode(path, node, section, broker)


def _names(nodes: Iterable[tuple[Path, Node]]) -> Iterator[tuple[Path, Node, str]]:
    """The names of entries, each after its path and the value itself."""
    for path, node in nodes:
        name = _value(node, "name")
        if name is not None and isinstance(name.scalar, str):
            yield (*path, "name"), name, name.scalar


def _duplicate_names(nodes: Iterable[tuple[Path, Node]]) -> Iterator[Finding]:
    first: dict[str, int] = {}
    for path, name, text in _names(nodes):
        if text in first:
            remedy = f"first used in line {first[text]}: merge both entries"
            yield name.location.error(path, f"duplicate name {text!r}", remedy)
        first.setdefault(text, name.location.line + 1)


def _exempt_policies(brokers: Iterable[tuple[Path, Node]], fields: PolicyFields) -> Iterator[Finding]:
    for path, node in brokers:
        exempt = (node.entries or {}).get("exempt")
        for index, name in enumerate(exempt.node.listed("policies") if exempt is not None else ()):
            if isinstance(name.scalar, str) and fields.infos and name.scalar not in fields.policies:
                message = f"unknown policy {name.scalar!r}"
                remedy = suggest(name.scalar, fields.policies)
                yield name.location.error((*path, "exempt", "policies", index), message, remedy)


def remove_duplicate_aliases(levels: Iterable[LevelNode], fields: PolicyFields) -> Iterator[Finding]:
    """Find fields that are set under both their names, and keep only the canonical one.

    The level's other values can be checked in the same pass only after one of the two is removed.
    """
    for level in levels:
        entries = level.node.entries or {}
        for alias in sorted(entries.keys() & fields.aliases.keys()):
            name = fields.aliases[alias]
            if name in entries:
                message = f"{alias!r} and {name!r} are the same field"
                yield entries.pop(alias).key.error((*level.path, alias), message, "keep one of them")


def _wrong_keys(level: LevelNode, fields: PolicyFields) -> Iterator[Finding]:
    """Find locks on unset fields, ceilings without effect, and fields that belong to the broker."""
    for name, entry in (level.node.entries or {}).items():
        if name == "locked":
            yield from _locks(entry.node.items or (), level.node, level.path, fields)
        elif name == "ceiling":
            yield from _ceilings(entry.node.entries or {}, level.path)
        if level.section != "broker":
            yield from _misplaced(name, entry, level, fields)


def _misplaced(name: str, entry: Entry, level: LevelNode, fields: PolicyFields) -> Iterator[Finding]:
    """Find what only the broker level has, or what no scope has: a field, or what an option says of one."""
    settings = {name: (entry, name, "")}
    for policy, inner in (entry.node.entries or {}).items():
        settings[f"{name}.{policy}"] = (inner, policy, f".{name}")
    scope = _scope_of(level)
    for setting, (each, text, option) in settings.items():
        where = (*level.path, name, text) if option else (*level.path, name)
        if fields.is_for_broker(setting):
            message = f"{text!r} applies to a whole broker, not to one {level.section[:-1]}"
            to = ".".join(str(part) for part in (*level.path[:-2], "broker"))
            yield each.key.error(where, message, f"move it to {to}{option}")
        elif scope and not fields.takes_scope(setting, Scope(groups=("*",))):
            message = f"{text!r} applies to all clients of a topic, not to some"
            yield each.key.error(where, message, "move it to an entry without 'for'")
        elif not fields.takes_scope(setting, scope):
            message = f"{text!r} counts subscriptions, which have no principal and no client id"
            yield each.key.error(where, message, "name only 'groups' in 'for'")


def _scope_of(level: LevelNode) -> Scope:
    """Which lists of its `for` name anybody, whatever their names are."""
    kinds = (level.scope.child(kind) if level.scope is not None else None for kind in ScopeNames.model_fields)
    return Scope(*(("*",) if kind is not None else () for kind in kinds))


def _locks(locked: Iterable[Node], level: Node, path: Path, fields: PolicyFields) -> Iterator[Finding]:
    for index, node in enumerate(locked):
        name = node.scalar
        if name in fields.settings and isinstance(name, str) and not _is_set(level, name, fields):
            yield node.location.error(
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


def _ceilings(entries: Mapping[str, Entry], path: Path) -> Iterator[Finding]:
    for name, entry in entries.items():
        if entry.node.scalar == 0 and not isinstance(entry.node.scalar, bool):
            message = "a ceiling of 0 (unlimited) limits nothing"
            yield entry.node.location.error((*path, "ceiling", name), message, "remove it, or set a limit")
