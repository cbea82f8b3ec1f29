"""The parts of a comparison, built in or from other packages: systems, doors, policies, metrics, clients.

A package adds its own by an entry point of the group `sluicegate.reports`, which names an `Extension`.
Systems and doors that are not registered take part too, as unknown ones.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import TypeVar

from sluicegate_reports.registry.arms import DOORS, SYSTEMS, Door, System
from sluicegate_reports.registry.kinds import KINDS, Kind
from sluicegate_reports.registry.measured import POLICIES, Family, Measured
from sluicegate_reports.registry.metrics import METRICS, Bound, Metric

__all__ = [
    "GROUP",
    "Bound",
    "Door",
    "Extension",
    "Family",
    "Kind",
    "Measured",
    "Metric",
    "RegistryError",
    "System",
]

GROUP = "sluicegate.reports"
"""The group of entry points."""
_Named = TypeVar("_Named")
_Kind = TypeVar("_Kind")


class RegistryError(Exception):
    """The extension of a package cannot be used; the message names it, says why and what to do."""


@dataclass(frozen=True, slots=True)
class Extension:
    """Everything that one package adds, under names that are not taken."""

    systems: tuple[System, ...] = ()
    doors: tuple[Door, ...] = ()
    policies: Mapping[str, Measured] = field(default_factory=dict)
    """By name in the file."""
    metrics: tuple[Metric, ...] = ()
    """Each with a name that no other metric has, and a transform."""
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    """How comparison runs play a system, by its name; a plugin of the gateway has to serve it."""
    arms: tuple[str, ...] = ()
    """Import paths of further arms, each an `Arm` of `sluicegate_reports.runner.doors` as `module:name`."""


def needs_spark() -> bool:
    """Whether a registered metric is measured by a transform of its own, which gets a DataFrame."""
    return any(metric.transform is not None for metric in metrics())


@cache
def systems() -> Mapping[str, System]:
    """All systems by name, ours first.

    :raises RegistryError: if the extension of a package cannot be used; the functions below do the same.
    """
    ours = {each.name: each for each in SYSTEMS}
    return _joined("system", ours, lambda of: [(each.name, each) for each in of.systems])


def system(name: str) -> System:
    """The system of a name; a plain one if the name is not registered."""
    return systems().get(name) or System(name)


@cache
def doors() -> Mapping[str, Door]:
    """All doors by name, ours first."""
    ours = {each.name: each for each in DOORS}
    return _joined("door", ours, lambda of: [(each.name, each) for each in of.doors])


def door(name: str) -> Door:
    """The door of a name; a door that is not registered is taken to have a gateway."""
    return doors().get(name) or Door(name)


@cache
def policies() -> Mapping[str, Measured]:
    """All policies by name in the file, ours first."""
    return _joined("policy", POLICIES, lambda of: of.policies.items())


@cache
def kinds() -> Mapping[str, Kind]:
    """All kinds of broker that comparison runs can play, ours first."""
    return _joined("kind", KINDS, lambda of: of.kinds.items())


@cache
def metrics() -> tuple[Metric, ...]:
    """All metrics, ours first, in the order of their columns."""
    ours = {metric.name: metric for metric in METRICS}
    for package, extension in _extensions():
        for metric in extension.metrics:
            if metric.transform is None or not metric.families:
                raise RegistryError(
                    f"metric {metric.name!r} of entry point {package!r} ({GROUP}) lacks a transform or "
                    "families: give it a transform, and the families of policies that it is a figure of"
                )
    joined = _joined("metric", ours, lambda of: [(each.name, each) for each in of.metrics])
    return (*METRICS, *(metric for name, metric in joined.items() if name not in ours))


def metrics_of(family: Family) -> tuple[Metric, ...]:
    """The metrics of a family of policies."""
    return tuple(metric for metric in metrics() if family in metric.families)


def arm_paths() -> list[str]:
    """Import paths of the arms of other packages, as `module:name`."""
    return [path for _, extension in _extensions() for path in extension.arms]


def check() -> None:
    """Read the extensions of all packages.

    :raises RegistryError: if one cannot be used.
    """
    for read in (systems, doors, policies, metrics, kinds):
        read()


def forget() -> None:
    """Look for entry points again at the next call: packages may have been installed or removed meanwhile."""
    for cached in (_extensions, systems, doors, policies, metrics, kinds):
        cached.cache_clear()


def load(what: str, read: Callable[[], object], kind: type[_Kind], path: str) -> _Kind:
    """Load an object of another package.

    :param what: names it in messages.
    :param read: imports it.
    :param kind: the class that it is to be of, which is found at `path`.
    :raises RegistryError: if it cannot be imported, or is something else.
    """
    try:
        loaded = read()
    except Exception as error:  # another package's module may raise anything
        raise RegistryError(
            f"{what} cannot be loaded: {type(error).__name__}: {error}; fix that package or uninstall it"
        ) from error
    if not isinstance(loaded, kind):
        raise RegistryError(
            f"{what} is no {kind.__name__} but of type {type(loaded).__name__}: "
            f"have it name a {path}.{kind.__name__}"
        )
    return loaded


@cache
def _extensions() -> tuple[tuple[str, Extension], ...]:
    points = sorted(entry_points(group=GROUP), key=lambda point: point.name)
    return tuple(
        (
            point.name,
            load(
                f"entry point {point.name!r} of {GROUP} ({point.value})",
                point.load,
                Extension,
                "sluicegate_reports.registry",
            ),
        )
        for point in points
    )


def _joined(
    what: str,
    ours: Mapping[str, _Named],
    theirs: Callable[[Extension], Iterable[tuple[str, _Named]]],
) -> Mapping[str, _Named]:
    """Ours and those of all packages; a name belongs to one of them."""
    joined, whose = dict(ours), dict.fromkeys(ours, "sluicegate itself")
    for package, extension in _extensions():
        for name, row in theirs(extension):
            if name in joined:
                raise RegistryError(
                    f"{what} {name!r} of entry point {package!r} ({GROUP}) is already {whose[name]}'s: "
                    "give it another name"
                )
            joined[name], whose[name] = row, f"entry point {package!r}"
    return MappingProxyType(joined)
