"""The usage that one gateway reads for all that share limits.

Clocks of hosts may differ, so ages are handed on instead of times.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from pydantic import TypeAdapter

from sluicegate.engine.task import SharedTask
from sluicegate.features.storage_quota.snapshot import BrokerUsage
from sluicegate.features.storage_quota.volumes import Limit, Limits, LimitType, Volume

_MOST_BYTES: Final = 256 * 1024
"""Of what a shared task may tell."""


@dataclass(frozen=True, slots=True)
class Readings:
    """What all readings until now have told, by node; times are those of one gateway's clock."""

    states: Mapping[str, BrokerUsage]
    seen_ms: Mapping[str, int]
    """When a source last reported a node, wall clock in milliseconds since 1970."""
    active: Collection[str] | None
    """Nodes that are up; None if the cluster is not asked."""
    failed: str
    """Why the last reading failed; empty if it succeeded."""


class SharedUsage(SharedTask):
    """Hands on what is read.

    :param readings: gives what this gateway knows.
    :param take_over: takes what another one knows.
    :param wall_ms: the wall clock.
    """

    def __init__(
        self,
        readings: Callable[[], Readings],
        take_over: Callable[[Readings], None],
        wall_ms: Callable[[], int],
    ) -> None:
        self._readings = readings
        self._take_over = take_over
        self._wall_ms = wall_ms

    def findings(self) -> str:
        """All that is known; how many volumes there are if that is too much."""
        readings = self._readings()
        text = _HANDED_ON.dump_json(_handed_on(readings, self._wall_ms()))
        if len(text) > _MOST_BYTES:
            volumes = sum(len(usage.volumes) for usage in readings.states.values())
            text = _HANDED_ON.dump_json(_HandedOn({}, None, "", volumes))
        return text.decode()

    def take(self, findings: str, age_s: float) -> None:
        """Take over what another gateway knows.

        :raises ValueError: if it cannot be read, or was too much to be told.
        """
        handed_on = _HANDED_ON.validate_json(findings)
        if handed_on.left_out:
            raise ValueError(
                f"the usage of {handed_on.left_out} volumes is too much to be shared, "
                "so each gateway reads it for itself"
            )
        self._take_over(_readings(handed_on, self._wall_ms() - round(age_s * 1000)))


_Limits = list[tuple[LimitType, int, int]]
"""Type, and numerator and denominator of the level."""


@dataclass(frozen=True, slots=True)
class _Node:
    """One node; ages in ms."""

    age: int
    seen: int
    volumes: list[tuple[str, int, int]]
    """Name, capacity and bytes in use."""
    hard: _Limits
    soft: _Limits


@dataclass(frozen=True, slots=True)
class _HandedOn:
    nodes: dict[str, _Node]
    active: list[str] | None
    failed: str
    left_out: int = 0
    """Volumes that are not told, as they are too many."""


_HANDED_ON: Final = TypeAdapter(_HandedOn)


def _handed_on(readings: Readings, now_ms: int) -> _HandedOn:
    nodes = {
        name: _Node(
            now_ms - usage.at_ms,
            now_ms - readings.seen_ms[name],
            [(each.name, each.capacity, each.consumed) for each in usage.volumes],
            _told_limits(usage.limits.hard),
            _told_limits(usage.limits.soft),
        )
        for name, usage in readings.states.items()
    }
    active = None if readings.active is None else sorted(readings.active)
    return _HandedOn(nodes, active, readings.failed)


def _readings(handed_on: _HandedOn, told_ms: int) -> Readings:
    """:param told_ms: when it was told, by the clock of this gateway."""
    states = {
        name: BrokerUsage(
            tuple(Volume(*each) for each in node.volumes),
            told_ms - node.age,
            Limits(_limits(node.hard), _limits(node.soft)),
        )
        for name, node in handed_on.nodes.items()
    }
    seen_ms = {name: told_ms - node.seen for name, node in handed_on.nodes.items()}
    active = None if handed_on.active is None else frozenset(handed_on.active)
    return Readings(states, seen_ms, active, handed_on.failed)


def _told_limits(limits: Collection[Limit]) -> _Limits:
    return [(each.type, each.level.numerator, each.level.denominator) for each in limits]


def _limits(rows: _Limits) -> tuple[Limit, ...]:
    return tuple(
        Limit(kind, Fraction(over, under) if kind is LimitType.MIN_FREE_PERCENTAGE else over)
        for kind, over, under in rows
    )
