"""Reads a scenario: all mistakes in one pass, each with location and remedy.

Parser, units and error messages are those of the configuration file.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import yaml
from pydantic import Field, ValidationError, create_model

from sluicegate.config.consistency import inconsistencies, policy_levels, remove_duplicate_aliases
from sluicegate.config.errors import ConfigErrors, Finding
from sluicegate.config.fields import PolicyFields
from sluicegate.config.load import read_text
from sluicegate.config.models import PolicyModel
from sluicegate.config.tree import Node, parse
from sluicegate.config.units import DURATION
from sluicegate.config.validation import suggest, translate
from sluicegate_reports.registry import kinds
from sluicegate_reports.runner.names import namespace_pattern, topic_pattern
from sluicegate_reports.runner.scenario import SYSTEMS, AdministeredEndpoints, Scenario, Systems

_Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class LoadedScenario:
    """A scenario that was read without an error."""

    scenario: Scenario
    text: str
    """The file as it was read."""
    policies: str
    """YAML with the key `policies`, for every gate of the run."""


def load_scenario(path: str | os.PathLike[str], policy_models: Iterable[type[PolicyModel]]) -> LoadedScenario:
    """Read and check a scenario file.

    :param path: the file, at most 1 MiB of UTF-8.
    :param policy_models: policy fields of all plugins.
    :raises ConfigErrors: with every mistake that was found.
    """
    file = os.fspath(path)
    text = read_text(file)
    if not text.strip():
        raise ConfigErrors([Finding(file, 1, 1, "", "the file is empty", "begin with 'name:'")])
    errors: list[Finding] = []
    fields = PolicyFields.of(policy_models)
    root = parse(text, file, errors)
    if root.entries is None:
        raise ConfigErrors(
            [*errors, root.location.error((), "expected a mapping (key: value)", "begin with 'name:'")]
        )
    levels = tuple(policy_levels(root))
    errors.extend(remove_duplicate_aliases(levels, fields))
    made: Scenario | None = None
    model = scenario_model(fields)
    try:
        made = model.model_validate(root.plain())
    except ValidationError as error:
        errors.extend(translate(error, root, model))
    errors.extend(inconsistencies(root, levels, fields))
    errors.extend(_mistakes(root))
    if errors or made is None:
        raise ConfigErrors(errors)
    return LoadedScenario(made, text, _policies_text(root))


def scenario_model(fields: PolicyFields) -> type[Scenario]:
    """The model of a whole scenario file: policies, and systems of other packages, included."""
    make: Any = create_model  # its overloads cannot know types that are made at run time
    others = [name for name in kinds() if name not in SYSTEMS]
    endpoints = (AdministeredEndpoints | None, Field(default=None, description="One that runs."))
    systems: type[Systems] = make("Systems", __base__=Systems, **dict.fromkeys(others, endpoints))
    made: type[Scenario] = make(
        "ScenarioFile",
        __base__=Scenario,
        systems=(systems, systems()),
        policies=(
            fields.policies_model(),
            Field(description="Policies as in the configuration file; topics by the names they have here."),
        ),
    )
    return made


def _policies_text(root: Node) -> str:
    """The policies with the names that topics and namespaces have on the systems."""
    policies = root.child("policies")
    plain: Any = policies.plain() if policies is not None else {}
    for section, pattern in (("topics", topic_pattern), ("namespaces", namespace_pattern)):
        for entry in plain.get(section) or ():
            entry["name"] = pattern(entry["name"])
    return yaml.safe_dump({"policies": plain}, sort_keys=False, allow_unicode=True)


# -- mistakes that no single value shows ------------------------------------------------------------------


def _mistakes(root: Node) -> Iterator[Finding]:
    """Works on files that have other mistakes too."""
    topics = dict(_names(root, "topics"))
    producers = dict(_names(root, "producers"))
    yield from _twice(root, "topics", ("topics",))
    yield from _twice(root, "producers", ("producers", "consumers"))
    yield from _twice(root, "phases", ("phases",))
    yield from _confusable(root)
    for section in ("producers", "consumers"):
        for index, node in _items(root, section):
            yield from _known(node, (section, index), "topic", topics)
            yield from _times(node, (section, index))
    for index, phase in _items(root, "phases"):
        for number, rate in _items(phase, "rates"):
            path = ("phases", index, "rates", number)
            yield from _known(rate, path, "producer", producers)
            yield from _silent(rate, path)
    policies = root.child("policies")
    if policies is not None:
        yield from _policies_of(policies, "topics", list(topics), "topic")
        namespaces = {str(node.plain()) for _, node in _fields(root, "topics", "namespace")} | {"default"}
        yield from _policies_of(policies, "namespaces", sorted(namespaces), "namespace")


def _items(node: Node, section: str) -> list[tuple[int, Node]]:
    return [(index, entry) for index, entry in enumerate(node.listed(section)) if entry.entries is not None]


def _fields(root: Node, section: str, field: str) -> list[tuple[int, Node]]:
    children = [(index, entry.child(field)) for index, entry in _items(root, section)]
    return [(index, node) for index, node in children if node is not None]


def _names(root: Node, section: str) -> list[tuple[str, Node]]:
    return [(str(node.scalar), node) for _, node in _fields(root, section, "name")]


def _twice(root: Node, what: str, sections: Sequence[str]) -> Iterator[Finding]:
    first: dict[str, int] = {}
    for section in sections:
        for index, node in _fields(root, section, "name"):
            name = str(node.scalar)
            if name in first:
                yield node.location.error(
                    (section, index, "name"),
                    f"{name!r} is given twice",
                    f"first given in line {first[name]}: choose another name",
                )
            first.setdefault(name, node.location.line + 1)


def _confusable(root: Node) -> Iterator[Finding]:
    """Policies find topics by the end of their names."""
    names = [name for name, _ in _names(root, "topics")]
    for index, node in _fields(root, "topics", "name"):
        name = str(node.scalar)
        for other in names:
            if other != name and name.endswith(other):
                yield node.location.error(
                    ("topics", index, "name"),
                    f"topic {name!r} ends with the name of topic {other!r}, so policies would confuse them",
                    "choose another name",
                )


def _known(node: Node, path: _Path, field: str, known: dict[str, Node]) -> Iterator[Finding]:
    named = node.child(field)
    if named is not None and isinstance(named.scalar, str) and named.scalar not in known:
        yield named.location.error(
            (*path, field), f"there is no {field} {named.scalar!r}", suggest(named.scalar, list(known))
        )


def _silent(node: Node, path: _Path) -> Iterator[Finding]:
    rate, silent = node.child("rate"), node.child("silent")
    if rate is not None and silent is not None and silent.scalar is True:
        yield rate.location.error((*path, "rate"), "a silent producer has no rate", "keep one of them")


def _times(node: Node, path: _Path) -> Iterator[Finding]:
    moments = [node.child(name) for name in ("start", "stop")]
    if moments[1] is None:
        return
    try:
        start, stop = (DURATION.parse(moment.scalar) if moment is not None else 0 for moment in moments)
    except ValueError:  # reported already, with its location
        return
    if stop <= start:
        yield moments[1].location.error(
            (*path, "stop"), "it stops before it starts", "give a 'stop' after its 'start'"
        )


def _policies_of(policies: Node, section: str, known: Sequence[str], what: str) -> Iterator[Finding]:
    for index, node in _fields(policies, section, "name"):
        name = node.scalar
        if isinstance(name, str) and not any(fnmatchcase(each, name) for each in known):
            yield node.location.error(
                ("policies", section, index, "name"),
                f"the scenario has no {what} {name!r}",
                suggest(name, list(known)),
            )
