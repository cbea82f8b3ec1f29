"""Rows that cannot belong to a run: of another run or system, or by a clock far away from it.

They are left out and named. Where one client's clock is that far off, everything that clients saw on its
topics is left out: of the rest alone messages would look lost.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

import numpy as np
import pyarrow as pa

from sluicegate_reports.model.runs import Run, Trial
from sluicegate_reports.model.verdict import Verdict
from sluicegate_reports.spark.reading import Log
from sluicegate_reports.transforms.lanes import microseconds
from sluicegate_reports.transforms.packing import Kept
from sluicegate_reports.verdicts import Finding

_FAR = timedelta(hours=1)
"""A clock further off is wrong: consumers are read for only minutes after a run's end."""
_DAY_US = 86_400_000_000
_NAMED = 20
"""Clients of a topic that are named."""
_TOPIC = ("system", "door", "topic")


@dataclass(frozen=True, slots=True)
class Astray:
    """Clients of one topic whose clocks lie far from the run."""

    system: str
    door: str
    topic: str
    clients: tuple[str, ...]
    days: float
    """How far the furthest lies after the run; below 0 before it."""

    @property
    def text(self) -> str:
        """Why nothing that clients saw there counts."""
        names = ", ".join(self.clients[:_NAMED])
        more = f" and {len(self.clients) - _NAMED} more" if len(self.clients) > _NAMED else ""
        side = "after" if self.days > 0 else "before"
        return (
            f"by the clock of {names}{more} rows lie {abs(self.days):,.1f} days {side} the run, so what "
            "clients saw there is left out"
        )


def _others(run: Run, log: Log) -> dict[str, int]:
    """Rows of other runs; none where the run's facts do not name it."""
    return {
        name: rows for name, rows in log.statistics.runs.items() if run.facts.run and name != run.facts.run
    }


def kept(run: Run, log: Log, astray: Sequence[Astray], *, any_run: bool = False) -> Kept:
    """Which topics' rows count: those of the run and of its systems, but for these.

    :param any_run: whether rows of other runs count, as somebody named their logs.
    """
    systems = frozenset(_systems(run)) if _strange(run, log) else None
    left_out = frozenset((each.system, each.door, each.topic) for each in astray)
    return Kept(systems, left_out, run.facts.run if _others(run, log) and not any_run else "")


def _strange(run: Run, log: Log) -> dict[str, int]:
    known = _systems(run)
    return {system: rows for system, rows in log.statistics.systems.items() if system not in known}


def _systems(run: Run) -> set[str]:
    return {arm.system for arm in run.facts.arms} | {trial.system for trial in run.trials}


def strangers(run: Run, what: str, log: Log, *, any_run: bool = False) -> Iterator[str]:
    """Runs and systems that only a log names.

    :param what: the log's name.
    :param any_run: see `kept`.
    """
    for name, rows in sorted(_others(run, log).items()) if not any_run else ():
        yield f"{what}: {rows:,} rows of another run, {name}, are left out"
    for system, rows in sorted(_strange(run, log).items()):
        yield f"{what}: {rows:,} rows of {system}, which the run does not list, are left out"


def astray(run: Run, observations: Log) -> list[Astray]:
    """Topics where a client's clock lies far from the run; the log is read only if there are any."""
    moments = [moment for trial in run.trials for moment in (trial.start, trial.end)]
    statistics = observations.statistics
    if not moments or statistics.first_us is None or statistics.last_us is None:
        return []
    ends = (run.facts.started, run.facts.ended, *(arm.read_until for arm in run.facts.arms))
    moments += [moment for moment in ends if moment is not None]
    first_us, last_us = microseconds(min(moments)), microseconds(max(moments))
    far_us = _FAR // timedelta(microseconds=1)
    if statistics.first_us >= first_us - far_us and statistics.last_us <= last_us + far_us:
        return []
    own = kept(run, observations, ())
    furthest: dict[tuple[str, str, str], tuple[set[str], int]] = {}
    for rows in observations.tables([*_TOPIC, "client", "time", "run"]):
        time_us = rows["time"].cast(pa.int64()).to_numpy()
        off_us = np.where(time_us > last_us, time_us - last_us, np.minimum(time_us - first_us, 0))
        far = own.of_run(
            rows.append_column("off_us", pa.array(off_us)).filter(pa.array(np.abs(off_us) > far_us))
        )
        for row in own.of_run(far).select([*_TOPIC, "client", "off_us"]).to_pylist():
            topic = row["system"], row["door"], row["topic"]
            if own(*topic):
                clients, furthest_us = furthest.get(topic, (set(), 0))
                furthest[topic] = clients | {row["client"] or ""}, max(furthest_us, row["off_us"], key=abs)
    return [
        Astray(*topic, tuple(sorted(clients)), furthest_us / _DAY_US)
        for topic, (clients, furthest_us) in sorted(furthest.items())
    ]


def explained(
    trials: Sequence[Trial], findings: Sequence[Finding], astray: Sequence[Astray]
) -> Iterator[Finding]:
    """The findings; those that lack what was left out say why."""
    why = {(each.system, each.door, each.topic): each.text for each in astray}
    for trial, finding in zip(trials, findings, strict=True):
        text = why.get((trial.system, trial.door, trial.topic))
        lacks = finding.verdict is Verdict.MISSING and not trial.missing
        yield replace(finding, text=text) if text and lacks else finding


def notes(astray: Sequence[Astray]) -> Iterator[str]:
    """What was left out for a clock, and why."""
    for each in astray:
        yield f"{each.system} {each.door}, {each.topic}: {each.text}"
