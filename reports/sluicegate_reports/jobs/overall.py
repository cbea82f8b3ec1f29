"""Sections about the whole run: cost of decisions, delivery of messages, gates against native policies."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from sluicegate_reports.jobs import origins
from sluicegate_reports.jobs.figures import figures_of, rate_figures
from sluicegate_reports.jobs.measuring import Measures, Rows
from sluicegate_reports.jobs.waiting import waiting_charts
from sluicegate_reports.model.results import Chart, Kind, Origin, Point, Section, Series, Table, Value
from sluicegate_reports.model.runs import Family, Run, Trial, measured_as
from sluicegate_reports.registry import door as door_of
from sluicegate_reports.registry import metrics_of, policies
from sluicegate_reports.transforms import cost, delivery, throttle
from sluicegate_reports.transforms.flows import CLIENTS

_DELIVERY = ("acknowledged", "refused", "failed", "received")
_HEADINGS = {"unread": "not read in time"}


def overall_sections(run: Run, measures: Measures) -> Iterator[Section]:
    """The sections for which there is anything."""
    name = run.facts.run
    yield from _throttle(run, measures)
    yield from _delivery(name, measures)
    yield from _drift(run.trials, measures)
    yield from _cost(name, measures)


def _delivery(run: str, measures: Measures) -> Iterator[Section]:
    columns = (
        "system",
        "door",
        "topic",
        "phase",
        "subscription",
        *delivery.COUNTS,
    )
    judged = [row for row in measures.deliveries if door_of(row["door"]).judged]
    if judged:
        text = (
            "What producers were told against what consumers got. Lost: acknowledged and never received, "
            "though later ones came or nothing came any more. Not read in time: not received before "
            "the run was over; what max_unacked_messages_per_consumer withholds counts for no threshold. "
            "Altered: received with another size than they were sent with. "
            "Told refused: received, though the answer was a refusal. Told nothing: received, and no answer."
        )
        table = _table("delivery", columns, judged, "What became of messages")
        lie = [
            origins.of_clients(run, str(s), _DELIVERY, door=str(d), topic=str(t), scenario=str(phase))
            for s, d, t, phase, *_ in table.rows
        ]
        table = replace(table, origins=tuple(lie))
        yield Section("Delivery", text, tables=(table,), overall=True)


def _drift(trials: Sequence[Trial], measures: Measures) -> Iterator[Section]:
    rows: list[tuple[Value, ...]] = []
    for (policy, phase, system, _), doors in _side_by_side(trials, measures).items():
        own = [door for door in doors if not door_of(door).gate]
        native = doors[own[0]] if own else {}
        for door, figures in ((door, of) for door, of in doors.items() if door not in own):
            rows += [(policy, phase, system, door, *measure) for measure in _beside(policy, figures, native)]
    if rows:
        columns = ("policy", "phase", "system", "door", "measure", "gate", "native", "difference")
        text = "How far each door is from the system's own policy, both as clients saw them."
        table = Table(columns, tuple(rows), "drift", "Gate against native")
        yield Section("Gate against native", text, tables=(table,), overall=True)


def _beside(
    policy: str, gate: dict[str, float], native: dict[str, float]
) -> Iterator[tuple[str, float, float, float]]:
    """Each measure that both have, with its difference."""
    measured = policies()[policy]
    for metric in metrics_of(measured.family):
        name = metric.name
        if metric.compared and name in gate and name in native:
            yield metric.words(measured.unit), gate[name], native[name], gate[name] - native[name]


def _side_by_side(
    trials: Sequence[Trial], measures: Measures
) -> dict[tuple[str, str, str, int], dict[str, dict[str, float]]]:
    """Figures by door of what is the same trial: each arm has topics of its own, in the same order."""
    beside: dict[tuple[str, str, str, int], dict[str, dict[str, float]]] = {}
    before: Counter[tuple[str, str, str, str]] = Counter()
    for number, trial in enumerate(trials):
        key = (trial.policy, trial.phase, trial.system)
        nth = before[*key, trial.door]
        before[*key, trial.door] += 1
        beside.setdefault((*key, nth), {})[trial.door] = _compared(number, trial, measures)
    return beside


def _compared(number: int, trial: Trial, measures: Measures) -> dict[str, float]:
    if measured_as(trial).family is Family.RATE:
        figures = rate_figures(number, trial, measures, CLIENTS)
    else:
        figures = figures_of(number, trial, measures)
    return {name: value for name, value in figures.items() if value is not None}


def _throttle(whole: Run, measures: Measures) -> Iterator[Section]:
    run = whole.facts.run
    tables = []
    if measures.holds:
        columns = ("system", "door", "topic", "policy", "holds", "total_ms", "longest_ms")
        table = _table("holds", columns, measures.holds, "What gates held, as announced")
        lie = [
            origins.of_log(run, str(s), door=str(d), topic=str(t), policy=str(p), action="delay")
            for s, d, t, p, *_ in table.rows
        ]
        tables.append(replace(table, origins=tuple(lie)))
    if measures.latencies:
        tables.append(_latencies(run, measures.latencies))
    if tables:
        text = "How long gates held what they let pass later, and how long producers waited for an answer."
        charts = tuple(waiting_charts(whole.trials, measures))
        yield Section("Waiting", text, charts, tuple(tables), overall=True)


def _latencies(run: str, rows: Rows) -> Table:
    shares = [f"p{share * 100:g} (ms)" for share in throttle.SHARES]
    ordered = sorted(rows, key=lambda row: (row["system"], row["door"], row["phase"], row["topic"]))
    values = tuple(
        (
            *(row[name] for name in ("system", "door", "phase", "topic", "messages")),
            *row["quantiles"],
            row["longest_ms"],
        )
        for row in ordered
    )
    columns = ("system", "door", "phase", "topic", "messages", *shares, "longest (ms)")
    lie = tuple(
        origins.of_clients(
            run,
            row["system"],
            ("acknowledged",),
            role="producer",
            door=row["door"],
            scenario=row["phase"],
            topic=row["topic"],
        )
        for row in ordered
    )
    return Table(columns, values, "latencies", "Time until a message was acknowledged", origins=lie)


def _cost(run: str, measures: Measures) -> Iterator[Section]:
    if not measures.costs:
        return
    names = [cost.name(share) for share in cost.SHARES]
    ordered = sorted(measures.costs, key=lambda row: (row["system"], row["door"]))
    series = tuple(
        Series(
            row["system"],
            row["door"],
            tuple(Point(share, row[name]) for share, name in zip(cost.SHARES, names, strict=True)),
            origin=_timed(run, row["system"], row["door"]),
        )
        for row in ordered
    )
    chart = Chart(
        "Cost of a decision, its log included", "ns", "", series, kind=Kind.QUANTILES, rows="decision cost"
    )
    columns = ("system", "door", "timed", *names)
    table = _table("decision cost", columns, ordered, "Percentiles, at most 0.1 % too high")
    headings = (*columns[:3], *(f"{heading} (ns)" for heading in table.columns[3:]))
    lie = tuple(_timed(run, str(row[0]), str(row[1])) for row in table.rows)
    table = replace(table, columns=headings, origins=lie)
    text = "Time that decisions took in the gateway, of those that were timed."
    yield Section("Cost of decisions", text, (chart,), (table,), overall=True)


def _timed(run: str, system: str, door: str) -> Origin:
    origin = origins.of_log(run, system, door=door)
    return replace(origin, where=f"{origin.where} AND decision_cost IS NOT NULL")


def _table(name: str, columns: Sequence[str], rows: Rows, title: str = "") -> Table:
    values = sorted((tuple(row[column] for column in columns) for row in rows), key=str)
    headings = tuple(
        _HEADINGS.get(column, column).replace("_ms", " (ms)").replace("p99_9", "p99.9").replace("_", " ")
        for column in columns
    )
    return Table(headings, tuple(values), name, title)
