"""What the worker that leads a fleet hears of the others."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from sluicegate.engine.bucket import SECOND_NS
from sluicegate.features.adaptive.fleet_rates import FleetRates, WorkerReport
from sluicegate.features.adaptive.logs import EVERY_NS
from sluicegate.pacing.log_throttle import LineLimiter

_INTERVALS = 1.5
"""How long rates count that are not told anew. The clients of a worker that has died pass their messages
elsewhere, and must not be counted twice."""


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

    def hear(self, reports: Mapping[str, str], own: WorkerReport, now_ns: int) -> FleetRates:
        """What all workers pass.

        :param reports: by the names of the others; a worker whose text cannot be read is left out.
        :param own: what this worker has told.
        :param now_ns: monotonic time.
        """
        before = self._heard
        self._heard = {
            worker: before[worker]
            if worker in before and before[worker].text == text
            else _Heard(text, self._report(worker, text, now_ns), now_ns)
            for worker, text in reports.items()
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
