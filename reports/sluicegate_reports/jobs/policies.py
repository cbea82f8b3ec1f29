"""One section for each policy: what was tried, a chart or two, and the rows of all figures."""

from collections.abc import Iterator, Sequence

from sluicegate_reports.jobs.figures import figures_of, rate_figures, source_of
from sluicegate_reports.jobs.measuring import DELAY_SHARES, Measures
from sluicegate_reports.results import Chart, Kind, Point, Section, Series, Table, Value
from sluicegate_reports.runs import Family, Trial
from sluicegate_reports.transforms import attribution
from sluicegate_reports.transforms.flows import CLIENTS, LOG
from sluicegate_reports.verdicts import Finding

_MOST_POINTS = 600
"""Of a series: more are not told apart on a page, and there may be many."""
_RATE_COLUMNS = {
    "windows": "windows",
    "window_s": "window (s)",
    "above": "worst above (share)",
    "below": "worst below (share)",
    "first_second": "first second",
    "allowed": "allowed",
    "overshoot": "overshoot",
    "admitted": "admitted",
    "refused": "refused at first",
    "ideal_refused": "ideal refused",
    "wrongly_admitted": "wrongly admitted",
    "wrongly_refused": "wrongly refused",
    "clients": "clients",
    "jain": "Jain",
    "engage_ms": "engage (ms)",
    "release_ms": "release (ms)",
}
_ANSWER_COLUMNS = {
    "attempts": "answers",
    "attached": "let in",
    "refused": "refused",
    "largest_admitted": "largest let in",
    "wrongly_admitted": "wrongly admitted",
    "wrongly_refused": "wrongly refused",
}
_COUNT_COLUMNS = {
    "attempts": "answers",
    "attached": "let in",
    "refused": "refused by it",
    "otherwise": "refused otherwise",
    "unclear": "refused, unclear by whom",
    "most": "most at once",
    "wrongly_admitted": "wrongly admitted",
    "wrongly_refused": "wrongly refused",
}
_KNOWN_BY = {
    attribution.ID: "the id in the text and its decision",
    attribution.TEXT: "the text",
    attribution.LOG: "decisions of that topic, client and time",
    attribution.CODE: "the code, and what is set on the topic",
    attribution.NO_ROW: "the code; the decision log has no row of it",
    None: "the code, which none of these policies answers with",
}
_COLUMNS = {
    Family.COUNT: _COUNT_COLUMNS,
    Family.SIZE: _ANSWER_COLUMNS,
    Family.ASKED_DELAY: _ANSWER_COLUMNS,
    Family.DELAY: {
        "messages": "messages",
        "early": "early",
        "least_ms": "earliest (ms)",
        "p50_ms": "p50 (ms)",
        "p99_ms": "p99 (ms)",
        "most_ms": "latest (ms)",
    },
    Family.UNACKED: {
        "consumers": "consumers",
        "received": "received",
        "acknowledged": "acknowledged",
        "most": "most unacknowledged",
    },
}
Numbered = Sequence[tuple[int, Trial, Finding]]


def rows_name(policy: str) -> str:
    """Name of the table that a policy's figures come from."""
    return f"{policy} figures"


def policy_sections(
    trials: Sequence[Trial], findings: Sequence[Finding], found: Measures
) -> Iterator[Section]:
    """The sections in the order in which policies were tried."""
    for policy in dict.fromkeys(trial.policy for trial in trials):
        mine = [
            (number, trial, finding)
            for number, (trial, finding) in enumerate(zip(trials, findings, strict=True))
            if trial.policy == policy
        ]
        family = mine[0][1].measured.family
        charts: tuple[Chart, ...] = ()
        if family is Family.RATE:
            charts = tuple(_rate_charts(mine, found))
        elif family is Family.DELAY:
            charts = tuple(_delay_charts(mine, found))
        tables = [_table(policy, mine, found)]
        if family is Family.COUNT:
            tables += _refusals(policy, mine, found)
        yield Section(policy, _text(mine), charts, tuple(tables))


def _text(mine: Numbered) -> str:
    limits = dict.fromkeys(f"{trial.limit:,g} {trial.measured.unit}" for _, trial, _ in mine)
    phases = dict.fromkeys(trial.phase for _, trial, _ in mine)
    return f"Limit: {', '.join(limits)}. Tried in: {', '.join(phases)}."


def _table(policy: str, mine: Numbered, found: Measures) -> Table:
    family = mine[0][1].measured.family
    rate = family is Family.RATE
    measures = _RATE_COLUMNS if rate else _COLUMNS[family]
    unit = mine[0][1].measured.unit
    columns = ("system", "door", "phase", "topic", f"limit ({unit})", *(["seen by"] if rate else []))
    rows: list[tuple[Value, ...]] = []
    for number, trial, finding in mine:
        place: tuple[Value, ...] = (trial.system, trial.door, trial.phase, trial.topic, trial.limit)
        if not rate:
            figures = figures_of(number, trial, found)
            rows.append((*place, *(figures.get(name) for name in measures), finding.verdict.text))
            continue
        sources = [LOG, CLIENTS] if source_of(number, found) == LOG else [CLIENTS]
        for source in sources:
            figures = rate_figures(number, trial, found, source)
            told = finding.verdict.text if source == sources[0] else ""
            rows.append((*place, source, *(figures.get(name) for name in measures), told))
    return Table((*columns, *measures.values(), "verdict"), tuple(rows), rows_name(policy), "All figures")


def _refusals(policy: str, mine: Numbered, found: Measures) -> Iterator[Table]:
    """Who refused those that were not let in, and how that is known."""
    rows: list[tuple[Value, ...]] = []
    for number, trial, _ in mine:
        for row in found.attachments:
            if row["trial"] == number and row["event"] == "attach_refused":
                by = " or ".join(row["policies"]) or "none of these policies"
                place = (trial.system, trial.door, trial.phase, trial.topic)
                known = _KNOWN_BY[row["how"]]
                rows.append((*place, row["code"], by, known, row["answers"], row["wrong"]))
    if rows:
        columns = (
            "system",
            "door",
            "phase",
            "topic",
            "told",
            "refused by",
            "known by",
            "refusals",
            "with room",
        )
        yield Table(columns, tuple(sorted(rows, key=str)), f"{policy} refusals", "Who refused")


def _shown(mine: Numbered) -> Iterator[tuple[int, Trial]]:
    """Of each arm the trial with the largest figure: the one that decides its place in the matrix."""
    best: dict[tuple[str, str], tuple[int, Trial, Finding]] = {}
    for each in mine:
        arm = (each[1].system, each[1].door)
        if arm not in best or (each[2].figure or 0) > (best[arm][2].figure or 0):
            best[arm] = each
    yield from ((number, trial) for number, trial, _ in best.values())


def _rate_charts(mine: Numbered, found: Measures) -> Iterator[Chart]:
    series = []
    limits = set()
    for number, trial in _shown(mine):
        source = source_of(number, found)
        rows = [row for row in found.seconds if row["lane"] == number and row["source"] == source]
        if rows:
            limits.add(trial.limit)
            points = {row["second"]: row["admitted"] for row in rows}
            series.append(Series(trial.system, trial.door, _points(points, trial), trial.topic))
    unit = mine[0][1].measured.unit
    if series:
        yield Chart(
            "Admitted in each second",
            unit,
            "s since the phase began",
            tuple(series),
            limit=limits.pop() if len(limits) == 1 else None,
            rows=rows_name(mine[0][1].policy),
            text="The first second may hold the burst on top; from then on a line should lie on the limit.",
        )


def _points(by_second: dict[int, float], trial: Trial) -> tuple[Point, ...]:
    """Whole seconds of the phase; those without a row admitted nothing."""
    length = int((trial.end - trial.start).total_seconds())
    step = max(1, -(-length // _MOST_POINTS))
    return tuple(
        Point(second, sum(by_second.get(second + each, 0) for each in range(step)) / step)
        for second in range(0, length - step + 1, step)
    )


def _delay_charts(mine: Numbered, found: Measures) -> Iterator[Chart]:
    by_trial = {row["trial"]: row["quantiles"] for row in found.delays}
    series = [
        Series(
            trial.system,
            trial.door,
            tuple(Point(*pair) for pair in zip(DELAY_SHARES, by_trial[number], strict=True)),
            trial.topic,
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
