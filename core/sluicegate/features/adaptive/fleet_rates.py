"""What the workers of a fleet tell of what they pass, and its sum."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Self

from sluicegate.features.adaptive.fleet_json import fitting, number, read, row, told_rate, written

ROW_BYTES: Final = 48
"""Most characters of a topic as it is reported, without its name."""


@dataclass(frozen=True, slots=True)
class Passed:
    """What passed of one topic in one interval, messages and bytes a second."""

    messages_per_s: float = 0.0
    bytes_per_s: float = 0.0
    is_natural: bool = True
    """False if it was throttled meanwhile, or if a part of it is unknown."""

    @property
    def traffic(self) -> float:
        """For comparisons."""
        return self.messages_per_s + self.bytes_per_s

    def __add__(self, other: "Passed") -> "Passed":
        """What passed at two workers."""
        return Passed(
            self.messages_per_s + other.messages_per_s,
            self.bytes_per_s + other.bytes_per_s,
            self.is_natural and other.is_natural,
        )


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """What one worker tells in one interval."""

    serial: int
    """Another one in each report, so that one that is not told anew is known by its text."""
    interval_s: float
    memory: float
    """The highest memory usage that it has read, as a fraction of its limit."""
    is_first: bool
    """Whether it has measured nothing yet."""
    topics: Mapping[str, Passed]
    """The topics that it passed anything of."""

    def text(self) -> str:
        """As JSON: of too many topics the busiest."""
        names: Iterable[str] = self.topics
        count = fitting(names, ROW_BYTES)
        if count < len(self.topics):
            names = sorted(names, key=lambda name: self.topics[name].traffic, reverse=True)
            names = names[: fitting(names, ROW_BYTES)]
        chosen = ((name, self.topics[name]) for name in names)
        return written(
            {
                "serial": self.serial,
                "interval": self.interval_s,
                "memory": round(self.memory, 4),
                "first": self.is_first,
                "topics": {
                    name: (told_rate(each.messages_per_s), told_rate(each.bytes_per_s), int(each.is_natural))
                    for name, each in chosen
                },
            }
        )

    @classmethod
    def read(cls, text: str) -> Self:
        """Read what another worker has told.

        :raises ValueError: if another version has written it.
        """
        content = read(text)
        topics = content.get("topics")
        if not isinstance(topics, dict):
            raise ValueError("expected topics by name")
        passed = {}
        for name in topics:
            messages, nbytes, is_natural = row(topics, name, 3)
            passed[name] = Passed(messages, nbytes, bool(is_natural))
        return cls(
            int(number(content.get("serial"))),
            number(content.get("interval")),
            number(content.get("memory")),
            content.get("first") is True,
            passed,
        )


@dataclass(frozen=True, slots=True)
class FleetRates:
    """What all workers together pass."""

    memory: float
    """The highest memory usage of all."""
    is_complete: bool
    """Whether all workers have measured what they pass."""
    topics: Mapping[str, Passed]

    @classmethod
    def of(cls, reports: Iterable[WorkerReport], late: Iterable[WorkerReport] = ()) -> Self:
        """The sum of what workers have told.

        :param late: those whose rates count no longer; they still tell of their memory.
        """
        reports = tuple(reports)
        topics: dict[str, Passed] = {}
        for report in reports:
            for name, passed in report.topics.items():
                topics[name] = topics[name] + passed if name in topics else passed
        memory = max((report.memory for report in (*reports, *late)), default=0.0)
        return cls(memory, not any(report.is_first for report in reports), topics)
