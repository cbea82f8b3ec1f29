"""What the workers of a fleet tell of what they pass, and its sum."""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Self

from sluicegate.engine.bucket import SECOND_NS
from sluicegate.features.adaptive.fleet_json import fitting, number, read, row, told_rate, written
from sluicegate.features.adaptive.logs import EVERY_NS
from sluicegate.pacing.log_throttle import LineLimiter

ROW_BYTES: Final = 48
"""Most characters of a topic as it is reported, without its name."""
_INTERVALS = 1.5
"""How long rates count that are not told anew. The clients of a worker that has died pass their messages
elsewhere, and must not be counted twice."""


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
        told = ((name, self.topics[name]) for name in names)
        return written(
            {
                "serial": self.serial,
                "interval": self.interval_s,
                "memory": round(self.memory, 4),
                "first": self.is_first,
                "topics": {
                    name: (told_rate(each.messages_per_s), told_rate(each.bytes_per_s), int(each.is_natural))
                    for name, each in told
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


@dataclass(slots=True)
class _Heard:
    text: str
    report: WorkerReport | None
    since_ns: int

    def is_late(self, now_ns: int) -> bool:
        """Whether it should have been told anew."""
        if self.report is None:
            return False
        return now_ns - self.since_ns >= _INTERVALS * self.report.interval_s * SECOND_NS


class FleetEar:
    """Hears what the other workers tell, for the one that leads.

    :param log: names workers that cannot be understood, each at most once in 60 s.
    """

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._line_limiter = LineLimiter(EVERY_NS)
        self._heard: Mapping[str, _Heard] = MappingProxyType({})

    def hear(self, told: Mapping[str, str], own: WorkerReport, now_ns: int) -> FleetRates:
        """What all workers pass.

        :param told: by the names of the others; a worker whose text cannot be read is left out.
        :param own: what this worker has told.
        :param now_ns: monotonic time.
        """
        before = self._heard
        self._heard = {
            worker: before[worker]
            if worker in before and before[worker].text == text
            else _Heard(text, self._report(worker, text, now_ns), now_ns)
            for worker, text in told.items()
            if text
        }
        known = [(heard.report, heard.is_late(now_ns)) for heard in self._heard.values()]
        timely = (report for report, is_late in known if report is not None and not is_late)
        late = (report for report, is_late in known if report is not None and is_late)
        return FleetRates.of((own, *timely), late)

    def _report(self, worker: str, text: str, now_ns: int) -> WorkerReport | None:
        try:
            return WorkerReport.read(text)
        except ValueError as error:
            if self._line_limiter.passes(worker, now_ns) is not None:
                self._log.warning("[AdaptiveThrottle] worker %s is left out: %s", worker, error)
            return None
