"""How long clients waited and gates held, over the time of the run: a panel for each arm."""

from collections.abc import Iterator, Sequence

from sluicegate_reports.jobs.measuring import Measures, Rows
from sluicegate_reports.model.results import Chart, Point, Series
from sluicegate_reports.model.runs import Trial
from sluicegate_reports.transforms.lanes import microseconds
from sluicegate_reports.transforms.over_time import span


def waiting_charts(trials: Sequence[Trial], measures: Measures) -> Iterator[Chart]:
    """The chart, if anything was answered or held."""
    if not measures.answers and not measures.held:
        return
    begin_us, _, width_us = span(trials)
    series: list[Series] = []
    for system, door in dict.fromkeys((trial.system, trial.door) for trial in trials):
        mine = [trial for trial in trials if (trial.system, trial.door) == (system, door)]
        first = (min(microseconds(trial.start) for trial in mine) - begin_us) // width_us
        last = (max(microseconds(trial.end) for trial in mine) - begin_us) // width_us
        for name, rows, y in (
            ("answered, median; the band goes to the longest", measures.answers, "median_ms"),
            ("held, longest", measures.held, "longest_ms"),
        ):
            own = [row for row in rows if (row["system"], row["door"]) == (system, door)]
            points = _points(own, y, range(first, last + 1), width_us / 1e6)
            if any(point.y is not None for point in points):
                series.append(Series(system, door, points, name))
    if series:
        yield Chart(
            "Latency and holds over time",
            "ms",
            "s since the arm began",
            tuple(series),
            log=True,
            rows="latencies" if measures.latencies else "holds",
            text="How long producers waited for the answer to what was stored, and the longest hold that "
            "gates announced. Nothing is drawn where nothing was answered or held.",
            panels=True,
        )


def _points(rows: Rows, y: str, stretches: range, width_s: float) -> tuple[Point, ...]:
    """A point for each stretch; those without a row are gaps."""
    by_stretch = {row["stretch"]: row for row in rows}
    points = []
    for stretch in stretches:
        row = by_stretch.get(stretch, {})
        value, most = row.get(y), row.get("longest_ms")
        band = (value, most) if y == "median_ms" else (None, None)
        points.append(Point((stretch - stretches.start) * width_s, value, *band))
    return tuple(points)
