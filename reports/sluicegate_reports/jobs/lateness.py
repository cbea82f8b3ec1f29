"""The distribution of lateness of delayed messages: a panel for each arm."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from sluicegate_reports.jobs.measuring import Measures, Row
from sluicegate_reports.model.results import Chart, Kind, Point, Series
from sluicegate_reports.model.runs import Trial
from sluicegate_reports.transforms.delay import EDGES_MS


def lateness(policy: str, shown: Sequence[tuple[int, Trial]], measures: Measures) -> Iterator[Chart]:
    """The chart, if anything came.

    :param shown: of each arm a trial and its number.
    """
    by_trial = {row["trial"]: row for row in measures.delays if row.get("up_to")}
    counts = [(trial, _stretches(by_trial[number])) for number, trial in shown if number in by_trial]
    filled = [index for _, several in counts for index, count in enumerate(several) if count]
    if not filled:
        return
    first, last = min(filled), max(filled)
    ends = [f"{edge:,}" for edge in EDGES_MS]
    names = [*(f"{low} to {high} ms" for low, high in pairwise(ends)), f"{ends[-1]} ms and more"]
    series = tuple(
        Series(
            trial.system,
            trial.door,
            tuple(
                Point(index - first, 100 * several[index] / sum(several)) for index in range(first, last + 1)
            ),
        )
        for trial, several in counts
        if sum(several)
    )
    yield Chart(
        "How late messages came",
        "%",
        "ms later than published + delay, where each column begins",
        series,
        kind=Kind.HISTOGRAM,
        rows=f"{policy} figures",
        categories=tuple(names[first : last + 1]),
        text="Share of the messages in each stretch; what lies before 0 came early.",
        panels=True,
    )


def _stretches(row: Row) -> list[int]:
    """Messages in each stretch; the first has all that came before it too."""
    up_to = [*row["up_to"], row["messages"]]
    return [up_to[1], *(after - before for before, after in pairwise(up_to[1:]))]
