"""The parts of a comparison, built in or from other packages: systems, doors, policies, metrics, clients.

A package adds its own by an entry point of the group `sluicegate.reports`, which names an `Extension`.
What nobody registered takes part too, as a system or a door of which nothing is known.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import EntryPoint, entry_points
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


class RegistryError(Exception):
    """What another package brings cannot be used: the message names it, says why and what to do."""


@dataclass(frozen=True, slots=True)
class Extension:
    """All that one package brings; its names are new ones."""

    systems: tuple[System, ...] = ()
    doors: tuple[Door, ...] = ()
    policies: Mapping[str, Measured] = field(default_factory=dict)
    """By name in the file."""
    metrics: tuple[Metric, ...] = ()
    """Each with a name that no other metric has, and a transform."""
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    """How comparison runs play a system, by its name; a plugin of the gateway has to serve it."""
    arms: tuple[str, ...] = ()
    """Places of further arms, each an `Arm` of `sluicegate_reports.runner.doors` as `module:name`."""


def systems() -> Mapping[str, System]:
    """All systems by name, ours first.

    :raises RegistryError: as all of these, if what a package brings cannot be used.
    """
    return _systems()


def system(name: str) -> System:
    """The system of a name; a plain one if the name is not registered."""
    return systems().get(name) or System(name)


def doors() -> Mapping[str, Door]:
    """All doors by name, ours first."""
    return _doors()


def door(name: str) -> Door:
    """The door of a name; a door that is not registered is taken to have a gateway."""
    return doors().get(name) or Door(name)


def policies() -> Mapping[str, Measured]:
    """All policies by name in the file, ours first."""
    return _policies()


def kinds() -> Mapping[str, Kind]:
    """All kinds of broker that comparison runs can play, ours first."""
    return _kinds()


def arm_places() -> list[str]:
    """Places of the arms of other packages, as `module:name`."""
    return [place for _, extension in _extensions() for place in extension.arms]


def metrics() -> tuple[Metric, ...]:
    """All metrics, ours first, in the order of their columns."""
    return _metrics()


def metrics_of(family: Family) -> tuple[Metric, ...]:
    """The metrics of a family of policies."""
    return tuple(metric for metric in metrics() if family in metric.families)


def check() -> None:
    """Read all that packages bring.

    :raises RegistryError: if something of it cannot be used.
    """
    for read in (_systems, _doors, _policies, _metrics, _kinds):
        read()


def forget() -> None:
    """Look for entry points again at the next call: packages may have been installed or removed meanwhile."""
    for cached in (_extensions, _systems, _doors, _policies, _metrics, _kinds):
        cached.cache_clear()


@cache
def _extensions() -> tuple[tuple[str, Extension], ...]:
    found = sorted(entry_points(group=GROUP), key=lambda point: point.name)
    return tuple((point.name, _loaded(point)) for point in found)


def _loaded(point: EntryPoint) -> Extension:
    said = f"entry point {point.name!r} of {GROUP} ({point.value})"
    try:
        loaded = point.load()
    except Exception as error:  # another package's module may raise anything
        raise RegistryError(
            f"{said} cannot be loaded: {type(error).__name__}: {error}; mend that package or uninstall it"
        ) from error
    if not isinstance(loaded, Extension):
        raise RegistryError(
            f"{said} is no Extension but of type {type(loaded).__name__}: "
            "have it name a sluicegate_reports.registry.Extension"
        )
    return loaded


@cache
def _systems() -> Mapping[str, System]:
    return _joined(
        "system", {each.name: each for each in SYSTEMS}, lambda of: [(each.name, each) for each in of.systems]
    )


@cache
def _doors() -> Mapping[str, Door]:
    return _joined(
        "door", {each.name: each for each in DOORS}, lambda of: [(each.name, each) for each in of.doors]
    )


@cache
def _policies() -> Mapping[str, Measured]:
    return _joined("policy", POLICIES, lambda of: of.policies.items())


@cache
def _kinds() -> Mapping[str, Kind]:
    return _joined("kind", KINDS, lambda of: of.kinds.items())


@cache
def _metrics() -> tuple[Metric, ...]:
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


def _joined(
    what: str,
    ours: Mapping[str, _Named],
    theirs: Callable[[Extension], Iterable[tuple[str, _Named]]],
) -> Mapping[str, _Named]:
    """Ours and those of all packages; a name belongs to one of them."""
    found, whose = dict(ours), dict.fromkeys(ours, "sluicegate itself")
    for package, extension in _extensions():
        for name, row in theirs(extension):
            if name in found:
                raise RegistryError(
                    f"{what} {name!r} of entry point {package!r} ({GROUP}) is already {whose[name]}'s: "
                    "give it another name"
                )
            found[name], whose[name] = row, f"entry point {package!r}"
    return MappingProxyType(found)
