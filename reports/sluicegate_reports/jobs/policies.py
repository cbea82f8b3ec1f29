"""One section for each policy: what was tried, a chart or two, and the rows behind all figures."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from sluicegate_reports.jobs import origins
from sluicegate_reports.jobs.figures import figures_of, rate_figures, source_of
from sluicegate_reports.jobs.lateness import lateness
from sluicegate_reports.jobs.measuring import DELAY_SHARES, Measures
from sluicegate_reports.jobs.reasons import Judged, telling, worst_first
from sluicegate_reports.model.quantities import quantity
from sluicegate_reports.model.results import Band, Chart, Kind, Origin, Point, Section, Series, Table, Value
from sluicegate_reports.model.runs import Family, Run, Trial, measured_as
from sluicegate_reports.registry import metrics_of
from sluicegate_reports.transforms import attribution
from sluicegate_reports.transforms.flows import CLIENTS, LOG
from sluicegate_reports.verdicts import Finding, worst_finding

_MOST_POINTS = 600
"""Of a series: more are not told apart on a page, and there may be many."""
_KNOWN_BY = {
    attribution.ID: "the id in the text and its decision",
    attribution.TEXT: "the text",
    attribution.LOG: "decisions of that topic, client and time",
    attribution.CODE: "the code, and what is set on the topic",
    attribution.NO_ROW: "the code; the decision log has no row of it",
    None: "the code, which none of these policies answers with",
}
_DRAWN = ("admitted", "offered", "held")
"""Of each second; only a gateway's log tells what was held."""
Numbered = Sequence[Judged]
_OriginOf = Callable[[Trial, str], Origin]
"""Where the rows of a trial lie that one source tells of."""


def rows_name(policy: str) -> str:
    """Name of the table that a policy's figures come from."""
    return f"{policy} figures"


def policy_sections(run: Run, findings: Sequence[Finding], measures: Measures) -> Iterator[Section]:
    """The sections in the order in which policies were tried."""
    of = partial(origins.of_trial, run.facts.run, clocks=measures.clocks)
    for policy, mine in _by_policy(run.trials, findings):
        family = measured_as(mine[0][1]).family
        charts: tuple[Chart, ...] = ()
        if family is Family.RATE:
            charts = tuple(_rate_charts(mine, measures, of))
        elif family is Family.DELAY:
            charts = tuple(_delay_charts(mine, measures, of))
        tables = [_table(policy, mine, measures, of)]
        if family is Family.COUNT:
            tables += _refusals(policy, mine, measures, of)
        yield Section(policy, _text(mine), charts, tuple(tables))


def _text(mine: Numbered) -> str:
    limits = dict.fromkeys(quantity(trial.limit, measured_as(trial).unit) for _, trial, _ in mine)
    phases = dict.fromkeys(trial.phase for _, trial, _ in mine)
    return f"Limit: {', '.join(limits)}. Tried in: {', '.join(phases)}."


def first_rows(trials: Sequence[Trial], findings: Sequence[Finding], measures: Measures) -> dict[int, int]:
    """The index of each trial's first row in the table of its policy, by the trial's number."""
    first_rows: dict[int, int] = {}
    for _, mine in _by_policy(trials, findings):
        next_row = 0
        for number, trial, _ in worst_first(mine):
            first_rows[number] = next_row
            next_row += len(_sources(number, trial, measures))
    return first_rows


def _by_policy(trials: Sequence[Trial], findings: Sequence[Finding]) -> Iterator[tuple[str, list[Judged]]]:
    """The trials of each policy, in the order in which policies were tried."""
    by_policy: dict[str, list[Judged]] = {}
    for number, (trial, finding) in enumerate(zip(trials, findings, strict=True)):
        by_policy.setdefault(trial.policy, []).append(Judged(number, trial, finding))
    yield from by_policy.items()


def _sources(number: int, trial: Trial, measures: Measures) -> list[str]:
    """By whom a trial was seen: a row for each."""
    both = measured_as(trial).family is Family.RATE and source_of(number, measures) == LOG
    return [LOG, CLIENTS] if both else [CLIENTS]


def _table(policy: str, mine: Numbered, measures: Measures, of: _OriginOf) -> Table:
    family = measured_as(mine[0][1]).family
    rate = family is Family.RATE
    metrics = [metric for metric in metrics_of(family) if metric.title]
    unit = measured_as(mine[0][1]).unit
    apart = telling([each.trial for each in mine])
    columns = ("system", "door", "phase", *apart, f"limit ({unit})", *(["seen by"] if rate else []))
    rows: list[tuple[Value, ...]] = []
    lie: list[Origin] = []
    for number, trial, finding in worst_first(mine):
        told_apart = (getattr(trial, name) for name in apart)
        arm: tuple[Value, ...] = (trial.system, trial.door, trial.phase, *told_apart, trial.limit)
        sources = _sources(number, trial, measures)
        for source in sources:
            figures = (
                rate_figures(number, trial, measures, source) if rate else figures_of(number, trial, measures)
            )
            seen_by = (source,) if rate else ()
            verdict = finding.verdict.text if source == sources[0] else ""
            rows.append((*arm, *seen_by, *(figures.get(metric.name) for metric in metrics), verdict))
            lie.append(of(trial, source))
    headings = (*columns, *(metric.heading(unit) for metric in metrics), "verdict")
    return Table(headings, tuple(rows), rows_name(policy), "All figures", origins=tuple(lie))


def _refusals(policy: str, mine: Numbered, measures: Measures, of: _OriginOf) -> Iterator[Table]:
    """Refusals of clients, by the policy that refused and the evidence for it."""
    rows: list[tuple[tuple[Value, ...], Origin]] = []
    apart = telling([each.trial for each in mine])
    for number, trial, _ in mine:
        for row in measures.attachments:
            if row["trial"] == number and row["event"] == "attach_refused":
                by = " or ".join(row["policies"]) or "none of these policies"
                arm = (trial.system, trial.door, trial.phase, *(getattr(trial, name) for name in apart))
                known = _KNOWN_BY[row["how"]]
                cells = (*arm, row["code"], by, known, row["answers"], row["wrong"])
                rows.append((cells, of(trial, CLIENTS)))
    if rows:
        told_columns = ("told", "refused by", "known by", "refusals", "with room")
        columns = ("system", "door", "phase", *apart, *told_columns)
        rows.sort(key=str)
        told_rows, lie = zip(*rows, strict=True)
        yield Table(columns, told_rows, f"{policy} refusals", "Who refused", origins=lie)


def _shown(mine: Numbered) -> Iterator[tuple[int, Trial]]:
    """The trial of each arm that decides its cell of the matrix; one with a figure, if there is any."""
    by_arm: dict[tuple[str, str], list[Judged]] = {}
    for each in mine:
        by_arm.setdefault((each[1].system, each[1].door), []).append(each)
    for several in by_arm.values():
        measured = [each for each in several if each[2].figure is not None] or several
        worst = worst_finding([finding for _, _, finding in measured])
        yield next((number, trial) for number, trial, finding in measured if finding is worst)


def _rate_charts(mine: Numbered, measures: Measures, of: _OriginOf) -> Iterator[Chart]:
    """All phases of a run on one axis of time, of each arm the topic that decides its cell of the matrix."""
    series: list[Series] = []
    limits = set()
    bands: tuple[Band, ...] = ()
    for _, chosen in _shown(mine):
        phases = sorted(_alike(mine, chosen), key=lambda each: each[1].start)
        seen_by = source_of(phases[0][0], measures)
        parts = {name: list(_over_phases(phases, measures, seen_by, name)) for name in _DRAWN}
        if not any(point.y is not None for point in parts["admitted"]):
            continue
        limits |= {trial.limit for _, trial in phases}
        bands = bands or tuple(_bands([trial for _, trial in phases]))
        for name, points in parts.items():
            if name == "admitted" or any(point.y for point in points):
                series.append(Series(chosen.system, chosen.door, tuple(points), name, of(chosen, seen_by)))
    unit = measured_as(mine[0][1]).unit
    if series:
        yield Chart(
            "Offered, admitted and held in each second",
            unit,
            "s since the first phase began" if bands else "s since the phase began",
            tuple(series),
            limit=limits.pop() if len(limits) == 1 else None,
            rows=rows_name(mine[0][1].policy),
            text="A full bucket lets the burst pass on top; else what is admitted should lie on the limit "
            "while more is offered. Held: what a gate let wait, in the second in which it began to.",
            panels=True,
            bands=bands,
        )


def _alike(mine: Numbered, chosen: Trial) -> list[tuple[int, Trial]]:
    """The trials of the same topic and subscription in all phases."""
    arm = (chosen.system, chosen.door, chosen.topic, chosen.subscription)
    return [
        (number, trial)
        for number, trial, _ in mine
        if (trial.system, trial.door, trial.topic, trial.subscription) == arm
    ]


def _over_phases(
    phases: Sequence[tuple[int, Trial]], measures: Measures, seen_by: str, name: str
) -> Iterator[Point]:
    """What each second of all phases had, with a gap where nothing was measured."""
    begin = phases[0][1].start
    for number, trial in phases:
        rows = [row for row in measures.seconds if row["lane"] == number and row["source"] == seen_by]
        later = (trial.start - begin).total_seconds()
        if rows:
            points = _points({row["second"]: row[name] for row in rows}, trial)
            yield from (replace(point, x=point.x + later) for point in points)
        else:
            yield Point(later, None)


def _bands(phases: Sequence[Trial]) -> Iterator[Band]:
    """The phases, if there are several."""
    begin = phases[0].start
    for trial in phases if len(phases) > 1 else ():
        low, high = ((moment - begin).total_seconds() for moment in (trial.start, trial.end))
        yield Band(trial.phase, low, high)


def _points(by_second: dict[int, float], trial: Trial) -> tuple[Point, ...]:
    """Whole seconds of the phase; those without a row admitted nothing.

    Of long phases each stretch keeps its lowest and its highest second, so that no peak and no gap is lost.
    """
    length = int((trial.end - trial.start).total_seconds())
    step = max(1, -(-2 * length // _MOST_POINTS)) if length > _MOST_POINTS else 1
    points = [Point(second, by_second.get(second, 0)) for second in range(length)]
    if step == 1:
        return tuple(points)
    kept: list[Point] = []
    for start in range(0, length, step):
        stretch = points[start : start + step]
        ends = {choose(stretch, key=lambda point: point.y or 0) for choose in (min, max)}
        kept += sorted(ends, key=lambda point: point.x)
    return tuple(kept)


def _delay_charts(mine: Numbered, measures: Measures, of: _OriginOf) -> Iterator[Chart]:
    by_trial = {row["trial"]: row["quantiles"] for row in measures.delays}
    series = [
        Series(
            trial.system,
            trial.door,
            tuple(Point(*pair) for pair in zip(DELAY_SHARES, by_trial[number], strict=True)),
            trial.topic,
            of(trial, CLIENTS),
        )
        for number, trial in _shown(mine)
        if number in by_trial
    ]
    if series:
        yield Chart(
            "Lateness against the delay",
            "ms",
            "",
            tuple(series),
            limit=0,
            kind=Kind.QUANTILES,
            rows=rows_name(mine[0][1].policy),
            text="How much later than published + delay messages came; below 0 is early.",
            limit_text="due",
        )
    yield from lateness(mine[0][1].policy, [(number, trial) for number, trial in _shown(mine)], measures)
