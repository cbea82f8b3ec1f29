"""Compare how systems enforced the same policies: from a run's directory to `Results`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from sluicegate_reports import registry
from sluicegate_reports.jobs import clocks, strays
from sluicegate_reports.jobs.causes import with_causes
from sluicegate_reports.jobs.costs import costs, priced
from sluicegate_reports.jobs.figures import figures_of, source_of
from sluicegate_reports.jobs.fleet import fleet_notes, fleet_sections
from sluicegate_reports.jobs.further import further, rows_kept
from sluicegate_reports.jobs.incomplete import Incomplete, by_the_rest, certain
from sluicegate_reports.jobs.measuring import Measures, measure
from sluicegate_reports.jobs.overall import overall_sections
from sluicegate_reports.jobs.policies import first_rows, policy_sections, rows_name
from sluicegate_reports.jobs.reasons import reasons
from sluicegate_reports.jobs.slices import cuts
from sluicegate_reports.jobs.thresholds import thresholds
from sluicegate_reports.model.listing import Listed, Listing, listing, with_files_of
from sluicegate_reports.model.locations import Location
from sluicegate_reports.model.results import Cell, Results, RunFacts
from sluicegate_reports.model.runs import DECISIONS, OBSERVATIONS, Run, Trial, read_run
from sluicegate_reports.model.verdict import Verdict, worst
from sluicegate_reports.spark import reading
from sluicegate_reports.spark.reading import Log
from sluicegate_reports.transforms.flows import CLIENTS
from sluicegate_reports.transforms.here import packed_here
from sluicegate_reports.transforms.packing import Kept, Source
from sluicegate_reports.verdicts import Finding, judge, worst_finding

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sluicegate_reports.spark.tasks import Framed

_COMPLETE = Incomplete()


def compare_run(spark: "SparkSession | None", directory: Listed, logs: Sequence[Listed] = ()) -> Results:
    """Compare the arms of a recorded run.

    :param spark: where it is computed; None for this process, which reads only what this machine has.
    :param directory: of the run, a path or a URL; Spark must find it under the same.
    :param logs: further decision logs, of any run: those of the gateways that took part.
    :raises RunError: if it is no run's, see `runs.read_run`.
    :raises PySparkException, Py4JError: if Spark fails, for another reason than a damaged file.
    """
    return compare_trials(spark, directory, logs)[0]


def compare_trials(
    spark: "SparkSession | None", directory: Listed, logs: Sequence[Listed] = ()
) -> tuple[Results, Sequence[Finding]]:
    """As `compare_run`, with the finding on each trial, in the run's order."""
    listed = listing(directory)
    run = read_run(listed.folder)
    try:
        return _compared(spark, listed, run, logs, thorough=False)
    except Exception as error:  # which class it is depends on where it happens
        if not reading.is_damage(error):
            raise
    return _compared(spark, listed, run, logs, thorough=True)


def _compared(
    spark: "SparkSession | None", listed: Listing, run: Run, further_logs: Sequence[Listed], *, thorough: bool
) -> tuple[Results, Sequence[Finding]]:
    decisions = reading.read_decisions(
        with_files_of(listed.within(DECISIONS), further_logs), thorough=thorough
    )
    observations = reading.read_observations(listed.within(OBSERVATIONS), thorough=thorough)
    astray = strays.astray(run, observations)
    kept = {
        DECISIONS: strays.kept(run, decisions, (), any_run=bool(further_logs)),
        OBSERVATIONS: strays.kept(run, observations, astray),
    }
    logs = {name: log for name, log in ((DECISIONS, decisions), (OBSERVATIONS, observations)) if log.rows}
    read_until = {(arm.system, arm.door): arm.read_until for arm in run.facts.arms if arm.read_until}
    if not logs:
        measures = Measures()
    elif spark is None:
        sources = {name: Source(log.paths, log.spools, kept[name]) for name, log in logs.items()}
        measures = measure(
            run.trials,
            packed_here(sources),
            read_until,
            available=logs,
        )
    else:
        measures = _in_spark(spark, run, logs, kept, read_until)
    lacking = Incomplete.of(decisions, observations)
    measures = certain(measures, run.trials, lacking)
    findings = list(strays.explained(run.trials, judged(run, measures, lacking), astray))
    notes = (
        *_notes(listed.folder, run, decisions, observations, any_run=bool(further_logs)),
        *strays.notes(astray),
    )
    return results_of(run, measures, notes, findings), findings


def _in_spark(
    spark: "SparkSession",
    run: Run,
    logs: Mapping[str, Log],
    kept: Mapping[str, Kept],
    read_until: Mapping[tuple[str, str], datetime],
) -> Measures:
    from sluicegate_reports.spark.session import planned_for
    from sluicegate_reports.spark.tasks import Framed, packed_in_tasks

    def source(name: str, log: Log) -> "Source | Framed":
        in_files = log.is_here and not log.spools
        return Source(log.paths, kept=kept[name]) if in_files else Framed(log.frame(spark), kept[name])

    with planned_for(spark, sum(log.rows for log in logs.values())):
        sources = {name: source(name, log) for name, log in logs.items()}
        packed = packed_in_tasks(spark, sources, cuts=cuts(run, logs.values()))
        measures = measure(run.trials, packed, read_until, available=logs)
        seen = logs.get(OBSERVATIONS)
        rows = rows_kept(seen.frame(spark), kept[OBSERVATIONS]) if seen else None
        return replace(measures, further=further(spark, run.trials, rows))


def judged(run: Run, measures: Measures, lacking: Incomplete = _COMPLETE) -> Sequence[Finding]:
    """What was found of each trial, in the run's order.

    :param lacking: which files lack a part.
    """
    tried: dict[tuple[str, str, str], set[str]] = {}
    for trial in run.trials:
        tried.setdefault((trial.system, trial.door, trial.topic), set()).add(trial.policy)
    findings = []
    for number, trial in enumerate(run.trials):
        figures = figures_of(number, trial, measures)
        others = tried[trial.system, trial.door, trial.topic] - {trial.policy}
        if figures.get("otherwise") and not figures.get("limited") and not others:
            # Nothing else is set there that could have refused all that this limit should have.
            figures = {**figures, "misattributed": figures["otherwise"]}
        if others and not trial.saturated and source_of(number, measures) == CLIENTS:
            # Without a log it is unknown which of them held the clients back.
            figures = {**figures, "used": None}
        finding = with_causes(number, trial, figures, judge(trial, figures), measures)
        findings.append(by_the_rest(number, trial, figures, finding, measures, lacking))
    return findings


def results_of(
    run: Run, measures: Measures, notes: Sequence[str] = (), findings: Sequence[Finding] | None = None
) -> Results:
    """Assemble the results.

    :param notes: what is missing or was left out.
    :param findings: of the trials, see `judged`, if they were made before.
    """
    findings = judged(run, measures) if findings is None else findings
    matrix = tuple(_cells(run, findings, first_rows(run.trials, findings, measures), measures))
    sections = (
        *reasons(run, findings, measures),
        *policy_sections(run, findings, measures),
        *fleet_sections(run.trials, measures),
        *overall_sections(run, measures),
    )
    shown = {table.name for section in sections for table in section.tables}
    return Results(
        run=replace(
            run.facts, skews=tuple(clocks.skews(run.facts, measures)), clocks=tuple(clocks.spans(measures))
        ),
        verdict=worst(cell.verdict for cell in matrix),
        matrix=tuple(cell if cell.rows in shown else replace(cell, rows="") for cell in matrix),
        sections=sections,
        thresholds=tuple(thresholds(run, matrix, measures)),
        notes=(*notes, *_unseen(run, measures), *clocks.notes(measures), *fleet_notes(run.trials, measures)),
    )


def _cells(
    run: Run, findings: Sequence[Finding], rows: Mapping[int, int], measures: Measures
) -> Iterator[Cell]:
    cost = costs(run, measures)
    by_cell: dict[tuple[str, str, str], list[tuple[Finding, int]]] = {}
    for number, (trial, finding) in enumerate(zip(run.trials, findings, strict=True)):
        by_cell.setdefault((trial.policy, trial.system, trial.door), []).append((finding, rows[number]))
    arms = [(arm.system, arm.door) for arm in run.facts.arms]
    tried = [(trial.system, trial.door) for trial in run.trials]
    for policy in dict.fromkeys(trial.policy for trial in run.trials):
        for system, door in dict.fromkeys([*arms, *tried]):
            several = by_cell.get((policy, system, door))
            cell = _cell(run.facts, policy, system, door, several or [])
            yield priced(cell, cost)


def _cell(facts: RunFacts, policy: str, system: str, door: str, findings: list[tuple[Finding, int]]) -> Cell:
    """A cell of the matrix.

    :param findings: of its trials, each with the index of its row.
    """
    if not findings:
        lack = registry.system(system).lack(policy, door)
        if lack:
            return Cell(policy, system, door, Verdict.NOT_APPLICABLE, text=lack)
        why = facts.arm(system, door).missing or "it was not tried at this door"
        return Cell(policy, system, door, Verdict.NOT_PLAYED, text=why)
    chosen = worst_finding([finding for finding, _ in findings])
    # If all are alike, such as why an arm is missing, there is no worst one.
    alike = all(finding == chosen for finding, _ in findings)
    text = chosen.text if alike else f"worst of {len(findings)}: {chosen.text}"
    return Cell(
        policy,
        system,
        door,
        chosen.verdict,
        chosen.figure,
        chosen.bound,
        text,
        rows_name(policy),
        chosen.unit,
        next(row for finding, row in findings if finding is chosen),
        causes=chosen.causes,
    )


def _notes(
    directory: Location, run: Run, decisions: Log, observations: Log, *, any_run: bool
) -> Iterator[str]:
    for what, log in (("decision log", decisions), ("observations", observations)):
        if not log.rows:
            yield f"{what}: there is not one row in {directory.name}"
        yield from strays.strangers(run, what, log, any_run=any_run and log is decisions)
        for left_out in log.left_out:
            yield f"{what}: {left_out.path.relative_to(directory)} was left out: it {left_out.reason}"
    played = [arm.system for arm in run.facts.arms] + [trial.system for trial in run.trials]
    for system in dict.fromkeys(played):
        if system not in registry.systems():
            yield (
                f"{system}: no registered system, so codes of its refusals mean no policy, and messages are "
                "expected in the order in which they were sent"
            )
    for arm in dict.fromkeys((t.system, t.door) for t in run.trials if not _excused(t)):
        if arm not in {(known.system, known.door) for known in run.facts.arms}:
            yield f"{arm[0]} {arm[1]}: tried, but not among the run's arms"


def _unseen(run: Run, measures: Measures) -> Iterator[str]:
    """Arms that were played and left no trace: their part of the logs is lost."""
    apart = (measures.latencies, measures.deliveries, measures.costs, measures.holds)
    seen = {(row["system"], row["door"]) for rows in apart for row in rows}
    by_number = (*measures.attachments, *measures.bounded, *measures.delays, *measures.unacked)
    lanes = (*measures.seconds, *measures.judged)
    numbers = {row["trial"] for row in by_number} | {row["lane"] for row in lanes}
    seen |= {(run.trials[number].system, run.trials[number].door) for number in numbers}
    for arm in run.facts.arms if seen else ():  # an empty log is reported elsewhere
        if not arm.missing and (arm.system, arm.door) not in seen:
            yield f"{arm.name}: it was played, and the logs have nothing of it: is a part of them missing?"


def _excused(trial: Trial) -> bool:
    return bool(trial.missing or trial.not_applicable)
