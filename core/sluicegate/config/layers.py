"""The policies of a validated document as layers, each setting with its location in the file."""

import os
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from sluicegate.config.consistency import SECTIONS, LevelNode
from sluicegate.config.environment import PREFIX
from sluicegate.config.fields import CEILING, OPTIONS, PolicyFields
from sluicegate.config.scopes import FOR
from sluicegate.config.tree import Location, Node
from sluicegate.model import EVERYBODY, PolicyLayer, Setting, Source


def layers_of_levels(
    level_nodes: Iterable[LevelNode], made: Any, fields: PolicyFields
) -> Iterable[PolicyLayer]:
    """The policies of some levels, with their locations.

    :param level_nodes: the levels, as nodes.
    :param made: the validated document, which has `policies` and `brokers`.
    """
    for level_node in level_nodes:
        owner = made if level_node.broker is None else made.brokers[level_node.broker]
        level = getattr(owner.policies, level_node.section)
        if level_node.section != "broker":
            level = level[level_node.path[-1]]
        names = getattr(level, FOR, None)
        scope = EVERYBODY if names is None else names.scope
        yield PolicyLayer(
            level=SECTIONS[level_node.section],
            name=getattr(level, "name", ""),
            settings={
                name: setting
                for name, setting in _settings(level, level_node.node, fields).items()
                if fields.takes_scope(name, scope)  # `mode: observe` stands for all policies
            },
            ceilings=_ceilings(level, level_node.node, fields),
            broker="" if level_node.broker is None else owner.name,
            scope=scope,
        )


def _settings(level: Any, node: Node, fields: PolicyFields) -> dict[str, Setting]:
    settings = {
        name: Setting(value, Source.FILE, locate_text(location), name in level.locked)
        for name, location in _locations(node, fields).items()
        if name in fields.infos and (value := getattr(level, name)) is not None
    }
    entries = node.entries or {}
    for option in OPTIONS:
        chosen = getattr(level, option)
        if chosen is None or option not in entries:
            continue
        by_policy = entries[option].node.entries or {}  # or true for all of them
        for policy, value in chosen:
            if value is not None:
                name = f"{option}.{policy}"
                location = by_policy.get(policy, entries[option]).key
                settings[name] = Setting(
                    value, Source.FILE, locate_text(location), locked=name in level.locked
                )
    return settings


def _ceilings(level: Any, node: Node, fields: PolicyFields) -> dict[str, Setting]:
    entry = (node.entries or {}).get("ceiling")
    if level.ceiling is None or entry is None:
        return {}
    locations = _locations(entry.node, fields)
    return {
        name: Setting(
            value,
            Source.FILE,
            locate_text(locations.get(name, entry.node.location)),
            locked=f"{CEILING}{name}" in level.locked,
        )
        for name, value in level.ceiling
        if value is not None
    }


def _locations(node: Node, fields: PolicyFields) -> dict[str, Location]:
    """Where the keys of a mapping are, by the fields' canonical names."""
    return {fields.aliases.get(name, name): entry.key for name, entry in (node.entries or {}).items()}


def locate_text(location: Location) -> str:
    """Format the location of a setting for provenance: `gateway.yaml:12`, or the variable's name."""
    name = location.source.name
    return name if name.startswith(PREFIX) else f"{_base_name(name)}:{location.line + 1}"


_base_name = lru_cache(os.path.basename)
