"""Which of the measures belong to a trial, by the names that the verdicts know."""

from collections.abc import Iterable

from sluicegate_reports.jobs.measuring import DELAY_SHARES, Measures, Row, Rows
from sluicegate_reports.runs import Family, Trial
from sluicegate_reports.transforms import counts
from sluicegate_reports.transforms.flows import CLIENTS, LOG
from sluicegate_reports.verdicts import Figures

_RATE_MEASURES = {
    "errors": ("windows", "above", "below", "largest", "window_s"),
    "firsts": ("first_second", "allowed"),
    "overshoots": ("overshoot", "admitted", "window_ms"),
    "shares": ("clients", "jain"),
    "engaged": ("engage_ms", "release_ms"),
}
_JUDGED = ("refused", "wrongly_admitted", "wrongly_refused", "ideal_refused")


def figures_of(number: int, trial: Trial, found: Measures) -> Figures:
    """A trial's figures; of a rate those from the decision log where there are any, else the clients'.

    :param number: the trial's place in the run's list.
    """
    if trial.measured.family is Family.RATE:
        return rate_figures(number, trial, found, source_of(number, found))
    return {
        Family.COUNT: lambda: _counts(number, found),
        Family.SIZE: lambda: _answers(number, found),
        Family.ASKED_DELAY: lambda: _answers(number, found),
        Family.DELAY: lambda: _delay(number, found),
        Family.UNACKED: lambda: _of_trial(number, found.unacked),
    }[trial.measured.family]()


def source_of(number: int, found: Measures) -> str:
    """Whether the decision log tells of a trial, or only the clients."""
    return LOG if any(row["lane"] == number and row["source"] == LOG for row in found.overshoots) else CLIENTS


def rate_figures(number: int, trial: Trial, found: Measures, source: str) -> Figures:
    """All figures of a rate by one source."""
    figures: dict[str, float | None] = {}
    for name, measures in _RATE_MEASURES.items():
        rows: Rows = getattr(found, name)
        row = _only(row for row in rows if row["lane"] == number and row["source"] == source)
        figures |= {measure: row.get(measure) for measure in measures}
    if source == LOG:
        judged = _only(row for row in found.judged if row["lane"] == number)
        figures |= {
            key: judged.get(key)
            for key in ("refused", "wrongly_admitted", "wrongly_refused", "ideal_refused")
        }
    # A window of a summary may begin before the first second and end in it.
    figures["slack"] = trial.limit * (figures.get("window_ms") or 0) / 1000
    return figures


def _of_trial(number: int, rows: Rows) -> Figures:
    return _only(row for row in rows if row["trial"] == number)


def _counts(number: int, found: Measures) -> Figures:
    return counts.folded(row for row in found.attachments if row["trial"] == number)


def _answers(number: int, found: Measures) -> Figures:
    row = _of_trial(number, found.bounded)
    return {**row, "attempts": (row.get("above") or 0) + (row.get("up_to") or 0)} if row else {}


def _delay(number: int, found: Measures) -> Figures:
    row = _only(row for row in found.delays if row["trial"] == number)
    quantiles = row.get("quantiles") or [None] * len(DELAY_SHARES)
    return {**{key: row.get(key) for key in ("messages", "early", "least_ms", "most_ms")}} | {
        f"p{share * 100:g}_ms": value for share, value in zip(DELAY_SHARES, quantiles, strict=True)
    }


def _only(rows: Iterable[Row]) -> Row:
    return next(iter(rows), {})
