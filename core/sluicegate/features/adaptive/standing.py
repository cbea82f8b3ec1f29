"""How throttled topics stand for a whole fleet, as its leader tells and every worker applies it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Self

from sluicegate.features.adaptive.fleet_json import number, read, row, told_rate, written

ROW_BYTES: Final = 96
"""Most characters of a topic as it is told, without its name."""
_ACTIVE, _WOULD = 1, 2


@dataclass(frozen=True, slots=True)
class Standing:
    """One topic after an evaluation."""

    natural_messages_per_s: float = 0.0
    """0 while unknown."""
    natural_bytes_per_s: float = 0.0
    messages_per_s: int = 0
    """The rate in force, or that would be; 0 if none."""
    bytes_per_s: int = 0
    active: bool = False
    would: bool = False
    backlog_pressure: float = 0.0

    @property
    def is_throttled(self) -> bool:
        """Whether it is, or would be without observe-only."""
        return self.active or self.would


@dataclass(frozen=True, slots=True)
class FleetStanding:
    """All topics after an evaluation; all that another worker needs to apply it, or to go on from it."""

    memory_pressure: float = 0.0
    observe_only: bool = False
    is_cut: bool = False
    """Whether there were too many topics. Each worker then evaluates alone those that are not among these."""
    topics: Mapping[str, Standing] = field(default_factory=lambda: MappingProxyType({}))

    def text(self) -> str:
        """As JSON."""
        return written(
            {
                "memory": round(self.memory_pressure, 4),
                "observe_only": self.observe_only,
                "cut": self.is_cut,
                "topics": {name: _row(standing) for name, standing in self.topics.items()},
            }
        )

    @classmethod
    def read(cls, text: str) -> Self:
        """Read what a leader has told.

        :raises ValueError: if another version has written it.
        """
        content = read(text)
        topics = content.get("topics")
        if not isinstance(topics, dict):
            raise ValueError("expected topics by name")
        return cls(
            number(content.get("memory")),
            content.get("observe_only") is True,
            content.get("cut") is True,
            {name: _standing(row(topics, name, 6)) for name in topics},
        )


def _row(standing: Standing) -> tuple[float, ...]:
    state = _ACTIVE if standing.active else _WOULD if standing.would else 0
    return (
        told_rate(standing.natural_messages_per_s),
        told_rate(standing.natural_bytes_per_s),
        told_rate(standing.messages_per_s),
        told_rate(standing.bytes_per_s),
        state,
        round(standing.backlog_pressure, 4),
    )


def _standing(values: Sequence[float]) -> Standing:
    natural_messages, natural_bytes, messages, nbytes, state, backlog = values
    return Standing(
        natural_messages,
        natural_bytes,
        int(messages),
        int(nbytes),
        state == _ACTIVE,
        state == _WOULD,
        backlog,
    )
