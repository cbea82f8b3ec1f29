"""The results of a job as one value: jobs make it; the page, the terminal and Markdown show it.

Everything is frozen and goes through JSON and back. Nothing here knows Spark, and nothing is left out
without a word: what was not measured is None, with the reason beside it or among the notes.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

from sluicegate_reports import registry
from sluicegate_reports.quantities import NOT_MEASURED

if TYPE_CHECKING:
    from pydantic import TypeAdapter

VERSION = 5
"""Of the JSON form; 2 tells where rows lie and what clocks rest on, 3 knows disputed verdicts, 4 has panels
and histograms, 5 knows unconfirmed verdicts, and results of logs. A later one may add fields; an older reader
refuses a later version."""
Value: TypeAlias = str | int | float | bool | None
"""One cell of a table; None is shown as its table says."""


class ResultsError(Exception):
    """A file holds no results that this version reads: the message says why and what to do."""


class Verdict(StrEnum):
    """How closely an arm follows the policy; the order of the members is from best to worst."""

    NOT_APPLICABLE = "not_applicable"
    """The system has no such policy at this door, and says so in docs/capabilities.md."""
    EXACT = "exact"
    """What was measured is what the policy says, to the message."""
    WITHIN = "within"
    """It differs by no more than the bound that is stated for it."""
    UNCONFIRMED = "unconfirmed"
    """It was kept by the gate's own log, and no client was there to confirm it."""
    MISSING = "missing"
    """It should have been measured and was not: the text says why."""
    DISPUTED = "disputed"
    """The gate's log and its clients contradict each other, so one of them is wrong."""
    OFF = "off"
    """It differs by more than the bound."""

    @property
    def text(self) -> str:
        """As people read it."""
        return _VERDICTS[self]


_VERDICTS = {
    Verdict.NOT_APPLICABLE: "not applicable",
    Verdict.EXACT: "exact",
    Verdict.WITHIN: "within bound",
    Verdict.UNCONFIRMED: "unconfirmed",
    Verdict.MISSING: "missing",
    Verdict.DISPUTED: "disputed",
    Verdict.OFF: "off",
}


MARKS = {
    Verdict.NOT_APPLICABLE: "–",  # noqa: RUF001 - a dash is meant
    Verdict.EXACT: "✓",
    Verdict.WITHIN: "≈",
    Verdict.UNCONFIRMED: "○",
    Verdict.MISSING: "?",
    Verdict.DISPUTED: "≠",
    Verdict.OFF: "✕",
}
"""A sign beside each verdict's text, so that colour is never the only difference."""


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict over several: the last one in the order of `Verdict`.

    :returns: MISSING for none at all, since then nothing was compared.
    """
    order = list(Verdict)
    return max(verdicts, key=order.index, default=Verdict.MISSING)


class Kind(StrEnum):
    """How a chart is drawn."""

    LINE = "line"
    """y over x, points joined."""
    STEP = "step"
    """y holds from its x to the next one: counts in windows, the fill of a bucket."""
    QUANTILES = "quantiles"
    """x is the share of values at or below y, 0.0 to 1.0; drawn so that the last percents have room."""
    BARS = "bars"
    """One bar for each point, x is an index into `categories`; `low` and `high` are its bounds."""
    DOTS = "dots"
    """As BARS, a dot each: for figures whose distance from 0 says nothing, or many in a row."""
    HISTOGRAM = "histogram"
    """y belongs to an interval of values; x is the interval's index into `categories`."""


@dataclass(frozen=True, slots=True)
class Arm:
    """One system behind one door."""

    system: str
    """One of `registry.systems`, or another."""
    door: str
    """One of `registry.doors`, or another."""
    label: str = ""
    """What has to stand beside its name everywhere, such as `registry.arms.REFERENCE_LABEL` or `nearest`."""
    missing: str = ""
    """Why all of it, or what of it, is missing; empty if nothing is."""
    read_until: datetime | None = None
    """UTC, by the clients' clock: when its consumers stopped reading; None if the run does not say."""

    @property
    def name(self) -> str:
        """System, door and label: `danube proxy (reference broker, not Danube)`."""
        return f"{self.system} {self.door}" + (f" ({self.label})" if self.label else "")


@dataclass(frozen=True, slots=True)
class Phase:
    """A stretch of the run in which one thing was tried."""

    name: str
    start: datetime
    """UTC, to the microsecond."""
    end: datetime


@dataclass(frozen=True, slots=True)
class Skew:
    """By how much a client's clock differs from the gateway's."""

    client: str
    system: str
    door: str
    offset_us: float
    """Client minus gate, in microseconds."""
    uncertainty_us: float
    """Largest error of the offset, in microseconds."""
    gate: str = ""
    """Name of the gate; empty if there is one only."""
    basis: str = ""
    """What it rests on, in words."""


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What one has to know to judge a run, or to repeat it."""

    run: str
    """Its id, as in `run=<id>`."""
    scenario: str
    """The scenario file's text, as it was run."""
    policies: str
    """The policy file's text, as it was run."""
    title: str = ""
    """The scenario's own name."""
    started: datetime | None = None
    ended: datetime | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    """Version of each program and library."""
    machine: Mapping[str, str] = field(default_factory=dict)
    """What it ran on."""
    commands: tuple[str, ...] = ()
    """Command lines that repeat it."""
    phases: tuple[Phase, ...] = ()
    arms: tuple[Arm, ...] = ()
    """Every arm that the scenario asks for, those that are missing too."""
    skews: tuple[Skew, ...] = ()

    def arm(self, system: str, door: str) -> Arm:
        """The arm of this name; for one that the run does not list, one with the system's label."""
        for arm in self.arms:
            if (arm.system, arm.door) == (system, door):
                return arm
        return Arm(system, door, self.label(system))

    def label(self, system: str) -> str:
        """What has to stand beside a system where no door is named.

        Its own, as Danube's, unless the run says that it was something else; none where there is no run.
        """
        if not self.run:
            return ""
        own = registry.system(system).label
        listed = [arm.label for arm in self.arms if arm.system == system]
        return own if not own or not listed or own in listed else listed[0]


@dataclass(frozen=True, slots=True)
class Cell:
    """One place of the parity matrix."""

    policy: str
    system: str
    door: str
    verdict: Verdict
    figure: float | None = None
    """What was measured, in `unit`; None if nothing was."""
    bound: float | None = None
    """What it may be at most and still be `within`, in `unit`."""
    text: str = ""
    """The figure in words, or the reason for a missing one."""
    rows: str = ""
    """Name of the table with its source rows; empty if there is none."""
    unit: str = ""
    row: int | None = None
    """Place of the row in it that decides, from 0 on."""
    low: float | None = None
    """Of a run that was repeated: lower end of the interval of the figure, which is the median then."""
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Point:
    """One point of a series."""

    x: float
    y: float | None
    """None is a gap: the line is broken there and never drawn through it."""
    low: float | None = None
    """Lower end of its bound or of its spread."""
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Origin:
    """Rows of the logs that a figure rests on."""

    path: str
    """Parquet files, from the run's directory on."""
    where: str
    """Condition that picks the rows, as SQL takes it."""
    name: str = ""
    """Whose they are, where an origin does not stand for a row of a table."""


@dataclass(frozen=True, slots=True)
class Series:
    """What one arm did."""

    system: str
    door: str
    points: tuple[Point, ...]
    """In the order of x."""
    name: str = ""
    """Further name, where an arm has several series in a chart, such as a client's."""
    origin: Origin | None = None
    """Where its points come from."""


@dataclass(frozen=True, slots=True)
class Chart:
    """One metric of one policy."""

    metric: str
    """Its heading, such as `Messages admitted in each second`."""
    unit: str
    """Of y: `messages/s`, `ms`, `bytes`; `` for a plain number."""
    x_unit: str
    """Of x, such as `s since the phase began`; of QUANTILES and categories: ``."""
    series: tuple[Series, ...]
    limit: float | None = None
    """What the policy says, drawn as a line across."""
    log: bool = False
    """Whether y is logarithmic; then values of 0 and below are shown at the foot."""
    kind: Kind = Kind.LINE
    rows: str = ""
    """Name of the table with its rows."""
    categories: tuple[str, ...] = ()
    """Names for x of BARS and DOTS; empty for one bar to an arm."""
    text: str = ""
    """One sentence that says how to read it, or what it shows."""
    limit_text: str = "limit"
    """What is written at the limit's line."""
    panels: bool = False
    """True for a panel for each arm, all on one scale; the first series of an arm is its main one."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows that figures come from."""

    columns: tuple[str, ...]
    """Names with their unit in brackets: `rate error (%)`. A column called `system` gets the arm's label."""
    rows: tuple[tuple[Value, ...], ...]
    name: str = ""
    """By which figures refer to it; unique among all tables of the results."""
    title: str = ""
    total: int | None = None
    """Number of rows that there are, if these are only some of them."""
    origins: tuple[Origin, ...] = ()
    """Where it comes from: one for each row, or, with names, some for all rows together."""
    untold: str = NOT_MEASURED
    """What is shown for None."""


@dataclass(frozen=True, slots=True)
class Section:
    """All of one policy."""

    policy: str
    text: str
    """What the policy says and what was tried."""
    charts: tuple[Chart, ...] = ()
    tables: tuple[Table, ...] = ()
    overall: bool = False
    """True for one about the whole run: `policy` is then its heading, and has no place in the matrix."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """A measure that must not exceed its bound; all measures are made so that less is better."""

    name: str
    """Lower case, as --fail-on takes it: `off_cells`, `rate_error_percent`."""
    bound: float
    measured: float | None
    """None if it could not be measured; then it is not passed."""
    passed: bool
    unit: str = ""
    text: str = ""
    """What is measured, in words."""
    rows: str = ""
    """Name of the table that it comes from; empty for the matrix."""

    def against(self, bound: float) -> "Threshold":
        """The same measure against another bound."""
        return replace(self, bound=bound, passed=self.measured is not None and self.measured <= bound)


@dataclass(frozen=True, slots=True)
class Results:
    """Everything that a job found: of a run, or in a log, see `of_log`."""

    run: RunFacts
    """Of a log it has a title alone."""
    verdict: Verdict | None
    """Over all cells, see `worst`; None where nothing is judged."""
    matrix: tuple[Cell, ...] = ()
    sections: tuple[Section, ...] = ()
    thresholds: tuple[Threshold, ...] = ()
    notes: tuple[str, ...] = ()
    """What is missing, left out or doubtful: files, arms, clocks. Shown before any figure."""
    summary: str = ""
    """The verdict, or what was found, in one or two sentences."""
    version: int = VERSION
    facts: Mapping[str, str] = field(default_factory=dict)
    """Of a log: what was read and how, by name."""

    def tables(self) -> dict[str, Table]:
        """All tables that have a name."""
        return {table.name: table for section in self.sections for table in section.tables if table.name}

    def arms(self) -> tuple[Arm, ...]:
        """All arms in the run's order, then those that only the matrix names."""
        found = {(arm.system, arm.door): arm for arm in self.run.arms}
        for cell in self.matrix:
            found.setdefault((cell.system, cell.door), self.run.arm(cell.system, cell.door))
        return tuple(found.values())

    def policies(self) -> tuple[str, ...]:
        """All policies, those of the matrix first."""
        named = [cell.policy for cell in self.matrix] + [
            section.policy for section in self.sections if not section.overall
        ]
        return tuple(dict.fromkeys(named))


def of_log(
    title: str,
    summary: str,
    facts: Mapping[str, str],
    tables: Iterable[Table],
    notes: tuple[str, ...],
    thresholds: tuple[Threshold, ...] = (),
) -> Results:
    """The results of a job without a run and without verdicts: a section for each table.

    :param facts: what was read and how, by name.
    :param tables: None in them is what is not known, such as the principals of a window: it is left empty.
    """
    told = (replace(table, untold="") for table in tables)
    sections = tuple(Section(table.title, "", tables=(table,), overall=True) for table in told)
    run = RunFacts("", "", "", title)
    return Results(
        run, None, sections=sections, thresholds=thresholds, notes=notes, summary=summary, facts=facts
    )


def to_json(results: Results) -> bytes:
    """The results as JSON. NaN and infinities become null: not measured."""
    return _adapter().dump_json(results, indent=1)


def from_json(data: bytes | str) -> Results:
    """Read what `to_json` wrote.

    :raises ResultsError: for other JSON, for no JSON at all and for a later version.
    """
    from pydantic import ValidationError

    try:
        results = _adapter().validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        problem = f"{where}: {first['msg']}" if where else first["msg"]
        raise ResultsError(
            f"not the results of a comparison ({problem}): expected the JSON of `sluicegate report compare`"
        ) from None
    if results.version > VERSION:
        raise ResultsError(
            f"results of version {results.version}, and this sluicegate reads up to {VERSION}: "
            "install a newer one"
        )
    return results


@cache
def _adapter() -> "TypeAdapter[Results]":
    from pydantic import TypeAdapter

    return TypeAdapter(Results)
