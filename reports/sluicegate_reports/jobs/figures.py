"""Selects the measures of one trial, under the names that verdicts use."""

from collections.abc import Iterable

from sluicegate_reports.jobs.further import further_figures
from sluicegate_reports.jobs.measuring import DELAY_SHARES, Measures, Row, Rows
from sluicegate_reports.model.runs import Family, Trial, measured_as
from sluicegate_reports.transforms import counts
from sluicegate_reports.transforms.flows import CLIENTS, LOG
from sluicegate_reports.verdicts import Figures
from sluicegate_reports.verdicts.rates import SEEN

_RATE_MEASURES = {
    "laws": ("excess", "excess_at_s", "excess_window_s", "excess_share", "largest", "admitted"),
    "owed": ("waited_s", "owed", "given", "fell", "fell_at_s"),
    "shares": ("clients", "jain"),
    "engaged": ("engage_ms", "release_ms"),
    "totals": (
        *("admitted_messages", "refused_messages", "largest_messages"),
        *("limited", "otherwise"),
        *("asked", "answered"),
    ),
    "carried": ("carried_messages",),
    "unanswered": ("unanswered",),
}
_JUDGED = ("refused", "wrongly_admitted", "wrongly_refused", "ideal_refused")


def figures_of(number: int, trial: Trial, measures: Measures) -> Figures:
    """A trial's figures; of a rate those from the decision log where there are any, else the clients'.

    :param number: the trial's index in the run's list.
    :return: with those of `delivery`; of a rate that a log tells of also what clients saw, see `_beside`.
    """
    delivered = _delivered(trial, measures)
    if measured_as(trial).family is Family.RATE:
        source = source_of(number, measures)
        figures = rate_figures(number, trial, measures, source)
        if source == CLIENTS:
            return {**figures, **delivered}
        return {**figures, **_beside(number, trial, measures, figures), **delivered}
    own = {
        Family.COUNT: lambda: _counts(number, measures),
        Family.SIZE: lambda: _answers(number, measures),
        Family.ASKED_DELAY: lambda: _answers(number, measures),
        Family.DELAY: lambda: _delay(number, measures),
        Family.UNACKED: lambda: _of_trial(number, measures.unacked),
    }[measured_as(trial).family]()
    return {**own, **further_figures(number, measures), **delivered}


def _beside(number: int, trial: Trial, measures: Measures, log: Figures) -> Figures:
    """Clients' figures of a rate that a log covers; names begin with `rates.SEEN`."""
    seen = dict(rate_figures(number, trial, measures, CLIENTS))
    refused = (seen.get("answered") or 0) - (seen.get("admitted_messages") or 0)
    # Refused without a row of the log: on its way, or by the broker behind the gateway.
    elsewhere = max(0.0, refused - (log.get("refused_messages") or 0))
    if measured_as(trial).operation != "publish":
        elsewhere = max(elsewhere, (log.get("admitted_messages") or 0) - (seen.get("admitted_messages") or 0))
    return {"under_way": elsewhere, **{f"{SEEN}{name}": value for name, value in seen.items()}}


def _delivered(trial: Trial, measures: Measures) -> Figures:
    """What became of the messages of a trial's topic, phase and subscription."""
    key = (trial.system, trial.door, trial.topic, trial.phase)
    rows = [
        row
        for row in measures.deliveries
        if (row["system"], row["door"], row["topic"], row["phase"]) == key
        and trial.subscription in ("", row["subscription"])
    ]
    if not rows:
        return {}
    names = ("lost", "unread", "duplicates", "reordered", "altered", "told_refused")
    return {name: sum(row[name] or 0 for row in rows) for name in names} | {
        "delivered_of": sum(row["acknowledged"] for row in rows)
    }


def source_of(number: int, measures: Measures) -> str:
    """Whether the decision log covers a trial, or only the clients."""
    return LOG if any(row["lane"] == number and row["source"] == LOG for row in measures.laws) else CLIENTS


def rate_figures(number: int, trial: Trial, measures: Measures, source: str) -> Figures:
    """All figures of a rate by one source; `used` is the share of what was owed that was given."""
    figures: dict[str, float | None] = {}
    for name, names in _RATE_MEASURES.items():
        rows: Rows = getattr(measures, name)
        row = _only(row for row in rows if row["lane"] == number and row["source"] == source)
        figures |= {measure: row.get(measure) for measure in names}
    if source == LOG:
        judged = _only(row for row in measures.judged if row["lane"] == number)
        figures |= {key: judged.get(key) for key in _JUDGED}
        figures["judged"] = (judged.get("admitted") or 0) + (judged.get("refused") or 0)
    owed, given = figures.get("owed"), figures.get("given")
    figures["used"] = given / owed if owed and given is not None else None
    return figures | dict(further_figures(number, measures))


def _of_trial(number: int, rows: Rows) -> Figures:
    return _only(row for row in rows if row["trial"] == number)


def _counts(number: int, measures: Measures) -> Figures:
    folded = counts.folded(row for row in measures.attachments if row["trial"] == number)
    return {**folded, "served": _of_trial(number, measures.served).get("served") or 0} if folded else {}


def _answers(number: int, measures: Measures) -> Figures:
    row = _of_trial(number, measures.bounded)
    if not row:
        return {}
    attempts = (row.get("above") or 0) + (row.get("up_to") or 0)
    return {**row, **_of_trial(number, measures.rejected), "attempts": attempts}


def _delay(number: int, measures: Measures) -> Figures:
    row = _only(row for row in measures.delays if row["trial"] == number)
    figures = {key: row.get(key) for key in ("messages", "early", "least_ms", "most_ms", "soonest_ms")}
    for kind, name in (("quantiles", "p{:g}_ms"), ("beyond", "beyond_p{:g}_ms")):
        values = row.get(kind) or [None] * len(DELAY_SHARES)
        named = zip(DELAY_SHARES, values, strict=True)
        figures |= {name.format(share * 100): value for share, value in named}
    return figures


def _only(rows: Iterable[Row]) -> Row:
    return next(iter(rows), {})
