"""The results of a job as one value: jobs make it; the page, the terminal and Markdown show it.

Everything is frozen and survives JSON. Nothing here knows Spark. Nothing is dropped silently: a value that
was not measured is None, with the reason beside it or among the notes.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

from sluicegate_reports import registry
from sluicegate_reports.model.finding import Cause
from sluicegate_reports.model.quantities import NOT_MEASURED
from sluicegate_reports.model.verdict import Verdict

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError

VERSION = 8
"""Of the JSON form. 2 added origins of rows and the basis of clocks, 3 disputed verdicts, 4 panels and
histograms, 5 unconfirmed verdicts and results of logs, 6 causes, and what was not reached or not played, 7
costs with no policy and no gateway, 8 the hosts of clocks. Later versions may add fields; readers refuse a
later one than theirs."""
Value: TypeAlias = str | int | float | bool | None
"""One cell of a table; None is shown as its table says."""


class ResultsError(Exception):
    """A file holds no results that this version reads: the message says why and what to do."""


class Kind(StrEnum):
    """How a chart is drawn."""

    LINE = "line"
    """y over x, points joined."""
    QUANTILES = "quantiles"
    """x is the share of values at or below y, 0.0 to 1.0; the scale stretches the last percents."""
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
    """Label that must stand beside its name everywhere, such as `registry.arms.REFERENCE_LABEL`."""
    missing: str = ""
    """What is missing of it and why; empty if nothing is."""
    read_until: datetime | None = None
    """UTC, by the clients' clock: when its consumers stopped reading; None if the run does not say."""

    @property
    def name(self) -> str:
        """System, door and label: `danube proxy (reference broker, not Danube)`."""
        return f"{self.system} {self.door}" + (f" ({self.label})" if self.label else "")


@dataclass(frozen=True, slots=True)
class Phase:
    """A period of the run in which one thing was tried."""

    name: str
    start: datetime
    """UTC, to the microsecond."""
    end: datetime


@dataclass(frozen=True, slots=True)
class Skew:
    """Offset of a client's clock from the gateway's."""

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
    """How it was measured, in words."""
    host: str = ""
    """Name of the gate's host; empty if it is not known."""


@dataclass(frozen=True, slots=True)
class ClockSpan:
    """Correction of an arm's gateway clocks against the clients', from a time on."""

    system: str
    door: str
    since: datetime
    """By the clients' clock; the first holds before it too."""
    ahead_us: float
    """In microseconds."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """A topic that was played with no policy and no gateway, for what its messages cost."""

    system: str
    topic: str
    """Full name."""
    policies: tuple[str, ...]
    """Those that the same topic has at other doors."""
    phase: str
    start: datetime
    """UTC, by the clients' clock."""
    end: datetime


@dataclass(frozen=True, slots=True)
class RunFacts:
    """The facts that are needed to judge a run, or to repeat it."""

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
    """Every arm that the scenario asks for, missing ones included."""
    skews: tuple[Skew, ...] = ()
    baselines: tuple[Baseline, ...] = ()
    clocks: tuple[ClockSpan, ...] = ()

    def arm(self, system: str, door: str) -> Arm:
        """The arm of this name; an arm that the run does not list gets the system's label."""
        for arm in self.arms:
            if (arm.system, arm.door) == (system, door):
                return arm
        return Arm(system, door, self.label(system))

    def label(self, system: str) -> str:
        """The label that must stand beside a system where no door is named.

        Its own, as Danube's, unless the run says that it was another one; none without a run.
        """
        if not self.run:
            return ""
        own = registry.system(system).label
        listed = [arm.label for arm in self.arms if arm.system == system]
        return own if not own or not listed or own in listed else listed[0]


@dataclass(frozen=True, slots=True)
class Cost:
    """What a door costs its clients, where no limit holds them."""

    p50_ms: float
    """Until a message was acknowledged."""
    p99_ms: float
    messages_per_s: float


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of the parity matrix."""

    policy: str
    system: str
    door: str
    verdict: Verdict
    figure: float | None = None
    """What was measured, in `unit`; None if nothing was."""
    bound: float | None = None
    """The largest value that still counts as `within`, in `unit`."""
    text: str = ""
    """The figure in words, or the reason for a missing one."""
    rows: str = ""
    """Name of the table with its source rows; empty if there is none."""
    unit: str = ""
    row: int | None = None
    """Index of the deciding row in that table, from 0 on."""
    low: float | None = None
    """Of repeated runs: lower end of the interval of the figure, which is then a median."""
    high: float | None = None
    causes: tuple[Cause, ...] = ()
    """What explains the verdict; the text has them in words."""
    cost: Cost | None = None
    """None where nothing was acknowledged below the limit."""
    direct: Cost | None = None
    """The same with no policy and no gateway; None where that was not played, or there is no `cost`."""


@dataclass(frozen=True, slots=True)
class Point:
    """One point of a series."""

    x: float
    y: float | None
    """None is a gap, at which the line is broken."""
    low: float | None = None
    """Lower end of its bound or of its spread."""
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Origin:
    """The rows of the logs that a figure comes from."""

    path: str
    """Parquet files, from the run's directory on."""
    where: str
    """Condition that selects the rows, in SQL."""
    name: str = ""
    """Whose rows they are, where the origin does not belong to a row of a table."""


@dataclass(frozen=True, slots=True)
class Series:
    """Points of one arm in a chart."""

    system: str
    door: str
    points: tuple[Point, ...]
    """In the order of x."""
    name: str = ""
    """Distinguishes several series of an arm in a chart, such as by client."""
    origin: Origin | None = None
    """Where its points come from."""


@dataclass(frozen=True, slots=True)
class Band:
    """A part of a chart's x axis, such as a phase."""

    name: str
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Chart:
    """One metric of one policy."""

    metric: str
    """Its heading, such as `Messages admitted in each second`."""
    unit: str
    """Of y: `messages/s`, `ms`, `bytes`; `` for a plain number."""
    x_unit: str
    """Of x, such as `s since the phase began`; of QUANTILES: ``."""
    series: tuple[Series, ...]
    limit: float | None = None
    """What the policy says, drawn as a line across."""
    log: bool = False
    """Whether y is logarithmic; values of 0 and below are then shown at the bottom."""
    kind: Kind = Kind.LINE
    rows: str = ""
    """Name of the table with its rows."""
    categories: tuple[str, ...] = ()
    """Names of a HISTOGRAM's intervals."""
    text: str = ""
    """One sentence that says how to read it, or what it shows."""
    limit_text: str = "limit"
    """Label of the limit's line."""
    panels: bool = False
    """Whether each arm has a panel of its own, all on one scale; an arm's first series is its main one."""
    bands: tuple[Band, ...] = ()
    """Named parts of its x axis, in order."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows that figures come from."""

    columns: tuple[str, ...]
    """Names with their unit in brackets: `rate error (%)`. A column called `system` gets the arm's label."""
    rows: tuple[tuple[Value, ...], ...]
    name: str = ""
    """Figures refer to the table by it; unique among all tables of the results."""
    title: str = ""
    total: int | None = None
    """Number of all rows, if these are only some of them."""
    origins: tuple[Origin, ...] = ()
    """Where the rows come from: one origin for each row, or named ones for all rows together."""
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
    """True if it is about the whole run: `policy` is then its heading, and is not in the matrix."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """A measure that must not exceed its bound; less is always better."""

    name: str
    """Lower case, as --fail-on takes it: `off_cells`, `rate_error_percent`."""
    bound: float
    measured: float | None
    """None if it could not be measured; the threshold is then not passed."""
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
    """The findings of a job about a run, or about a log, see `of_log`."""

    run: RunFacts
    """For a log, a title alone."""
    verdict: Verdict | None
    """Over all cells, see `worst`; None where nothing is judged."""
    matrix: tuple[Cell, ...] = ()
    sections: tuple[Section, ...] = ()
    thresholds: tuple[Threshold, ...] = ()
    notes: tuple[str, ...] = ()
    """Missing, left out or doubtful files, arms and clocks. Shown before any figure."""
    summary: str = ""
    """The verdict, or what was found, in one or two sentences."""
    version: int = VERSION
    facts: Mapping[str, str] = field(default_factory=dict)
    """For a log: what was read and how, by name."""

    def tables(self) -> dict[str, Table]:
        """All tables that have a name."""
        return {table.name: table for section in self.sections for table in section.tables if table.name}

    def cells(self) -> dict[tuple[str, str, str], Cell]:
        """The matrix by policy, system and door."""
        return {(cell.policy, cell.system, cell.door): cell for cell in self.matrix}

    def arms(self) -> tuple[Arm, ...]:
        """All arms in the run's order, then those that only the matrix names."""
        arms = {(arm.system, arm.door): arm for arm in self.run.arms}
        for cell in self.matrix:
            arms.setdefault((cell.system, cell.door), self.run.arm(cell.system, cell.door))
        return tuple(arms.values())

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
    :param tables: None in them is unknown, such as the principals of a window, and shown as empty.
    """
    shown = (replace(table, untold="") for table in tables)
    sections = tuple(Section(table.title, "", tables=(table,), overall=True) for table in shown)
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
        raise ResultsError(
            f"not the results of a comparison ({first_mistake(error)}): "
            "expected the JSON of `sluicegate report compare`"
        ) from None
    if results.version > VERSION:
        raise ResultsError(
            f"results of version {results.version}, and this sluicegate reads up to {VERSION}: "
            "install a newer one"
        )
    return results


def first_mistake(error: "ValidationError") -> str:
    """The first mistake in a JSON file, with its location."""
    first = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where}: {first['msg']}" if where else first["msg"]


@cache
def _adapter() -> "TypeAdapter[Results]":
    from pydantic import TypeAdapter

    return TypeAdapter(Results)
