"""The end of `sluicegate demo --all`: one short scenario against each system, and the report of its records.

It is `sluicegate compare run demo --embedded` and `sluicegate report compare`, one after the other.
"""

import importlib.util
import shlex
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from sluicegate.decisions.reading import read_decisions
from sluicegate.demo.law import Limit
from sluicegate.demo.page import Page
from sluicegate.demo.topic_log import TopicLog
from sluicegate.host.children import python_command
from sluicegate.output.console import Console
from sluicegate.runtime.plugins import load_plugins
from sluicegate_reports.commands.demo_table import clients_table
from sluicegate_reports.commands.usage import Unusable, write
from sluicegate_reports.model.results import Cell, Results, from_json
from sluicegate_reports.model.runs import DECISIONS, Family, Run, measured_as
from sluicegate_reports.model.verdict import UNMEASURED, Verdict
from sluicegate_reports.registry import policies
from sluicegate_reports.render.markdown import markdown
from sluicegate_reports.render.page import page
from sluicegate_reports.render.terminal import as_text
from sluicegate_reports.render.terminal import show as show_summary
from sluicegate_reports.runner.command import shipped
from sluicegate_reports.runner.doors import arms_of
from sluicegate_reports.runner.loading import load_scenario
from sluicegate_reports.runner.scenario import SYSTEMS
from sluicegate_reports.runner.shown import play_shown

SCENARIO = "demo"
DOORS = ("proxy", "interceptor", "direct")
"""Stand-ins have no policies of their own, so there is no native door."""
ANSWERED = (Family.COUNT, Family.SIZE, Family.ASKED_DELAY)
"""Families with a yes-or-no answer, the same on any machine."""
CERTAIN = ("early_messages", "lost_messages")
"""Thresholds that a busy machine cannot explain."""

_JOB_S = 1800.0
"""Longest time that the job may take; on two idle cores it needs half a minute."""
_ASCII = str.maketrans("╭╮╰╯┬┴├┤┼─│━┃✓✕≈○≠", "+++++++++-|=|+x~o!")


def show(directory: Path, systems: Sequence[str], plain: bool) -> Sequence[str]:
    """Compare the systems, and print what was found.

    :param directory: the demo's; a folder `comparison` is made in it.
    :param systems: kinds of broker that are available here.
    :param plain: no colours, and ASCII only.
    :return: faults, see `wrong`.
    """
    compared = [system for system in SYSTEMS if system in systems]
    if not compared:
        return []
    folder = directory / "comparison"
    run_directory = folder / "run"
    run_directory.mkdir(parents=True)
    screen = _Screen(plain)
    lacking = lacks()
    screen.say(
        "\nThe comparison: one scenario against each system, one after the other, through the gateway and, "
        "for Danube, with the interceptor in the reference broker. Real brokers have a native door besides: "
        "sluicegate compare run mixed",
        "bold",
    )
    if lacking:
        screen.say("The comparison ends without a report, and says why.")
    run = _play(run_directory, compared, screen.console)
    screen.say("")
    screen.console.print(clients_table(run_directory, run.facts.arms, plain=plain))
    problems = [f"{arm.name}: {arm.missing}" for arm in run.facts.arms if arm.missing]
    if lacking:
        screen.say(f"\n{_without(lacking, run_directory)}", "bold yellow")
        return problems
    try:
        results = _compared(folder, run_directory, screen)
        _written(results, folder)
    except _FailedError as failed:
        return [*problems, str(failed)]
    screen.summary(results)
    screen.say(f"\nThe report, to look at in a browser: {folder / 'report.html'}", "bold")
    screen.say(f"report.json and report.md are beside it; the recorded run is in {run_directory}")
    for line in unmeasured(results):
        screen.say(line, "yellow")
    return [*problems, *wrong(results), *exceeded_limits(run, run_directory)]


def lacks() -> str:
    """What the report lacks here, with the remedy; empty if nothing."""
    if importlib.util.find_spec("numpy") is None:  # what else reports need comes with it
        return "reports are not installed: pip install 'sluicegate[reports]'"
    return ""


def wrong(results: Results) -> Iterator[str]:
    """Faults that a slow or busy machine cannot explain; with `exceeded_limits` they decide the exit code.

    They are wrong answers to yes-or-no decisions, and messages that arrived too early or not at all. How near
    rates came to their limits and how late messages were depends on the load of the machine: the report shows
    it, and it decides nothing here.
    """
    for cell in results.matrix:
        if cell.verdict is Verdict.OFF and _answered(cell):
            yield f"{_name(cell)}: {cell.verdict.text}: {cell.text}"
    for threshold in results.thresholds:
        if threshold.name in CERTAIN and not threshold.passed:
            yield f"{threshold.measured:,.0f} {threshold.text}"


def unmeasured(results: Results) -> Iterator[str]:
    """Policies that could not be measured because the machine was too slow."""
    for cell in results.matrix:
        if cell.verdict in UNMEASURED:
            yield f"{_name(cell)}: not measured here: {cell.text}"


def _name(cell: Cell) -> str:
    return f"{cell.policy}, {cell.system} {cell.door}"


def exceeded_limits(run: Run, directory: Path) -> Iterator[str]:
    """Rates that a gateway's own log shows to have been exceeded in some window."""
    tried = {
        (trial.policy, trial.system, trial.door, trial.topic): trial
        for trial in run.trials
        if measured_as(trial).family is Family.RATE and not trial.missing and not trial.not_applicable
    }
    rows = read_decisions(directory / DECISIONS).to_pylist() if tried else []
    for (policy, system, door, topic), trial in tried.items():
        log = TopicLog(
            row for row in rows if (row["system"], row["door"], row["topic"]) == (system, door, topic)
        )
        unit = measured_as(trial).unit.partition("/")[0]
        limit = Limit(trial.limit, trial.burst)
        surplus = limit.surplus(log.admitted(measured_as(trial).operation, unit, trial.subscription or None))
        if surplus > 0:
            yield f"{policy}, {system} {door}: admitted {surplus:,.0f} {unit} more than its limit permits"


def _answered(cell: Cell) -> bool:
    measured = policies().get(cell.policy)
    return measured is not None and measured.family in ANSWERED


class _FailedError(Exception):
    """The report could not be made."""


class _Screen(Page):
    """Standard output."""

    def summary(self, results: Results) -> None:
        """The report's summary."""
        self.say("")
        if not self._plain:
            show_summary(results, self.console)
            return
        text = as_text(results, self.console.width)
        self.say(text.translate(_ASCII).encode("ascii", "replace").decode())

    def waiting(self, text: str) -> Progress:
        """Shows how long a step has taken so far; without a terminal one line at its start."""
        if not self.console.is_terminal:
            self.say(text)
        return Progress(
            SpinnerColumn("line"),
            TextColumn(text),
            TimeElapsedColumn(),
            console=self.console,
            transient=True,
            disable=not self.console.is_terminal,
        )


def _play(directory: Path, systems: Sequence[str], console: Console) -> Run:
    plugins = load_plugins(())
    options = ["--systems", ",".join(systems), "--doors", ",".join(DOORS)]
    return play_shown(
        load_scenario(shipped()[SCENARIO], plugins.policy_models),
        arms_of(systems, DOORS),
        directory,
        plugins,
        console=console,
        command=" ".join(["sluicegate", "compare", "run", SCENARIO, "--embedded", *options]),
        given={},
        embedded=True,
    )


def _without(lacking: str, run_directory: Path) -> str:
    return (
        f"There is no comparison report, as something is missing here. {lacking}. The run is recorded, so "
        "nothing has to be played again then:\n"
        f"$ sluicegate report compare {shlex.quote(str(run_directory))} --out report.html"
    )


def _compared(folder: Path, run_directory: Path, screen: _Screen) -> Results:
    """Run the job as its command does, in a process of its own: what it prints goes to a file.

    :raises _FailedError: if it fails.
    """
    out, log = folder / "report.json", folder / "compare.log"
    arguments = ["report", "compare", str(run_directory), "--out", str(out)]
    began = time.monotonic()
    with log.open("w", encoding="utf-8") as printed, screen.waiting("comparing the systems") as bar:
        bar.add_task("", total=None)
        code = _done(python_command("sluicegate", *arguments), printed.fileno())
    if code != 0 or not out.exists():
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        last = lines[-1].strip() if lines else f"exit code {code}"
        again = " ".join(["sluicegate", *map(shlex.quote, arguments)])
        raise _FailedError(f"the report could not be made: {last}; see {log}, and try again: {again}")
    screen.say(f"compared in {time.monotonic() - began:.0f} s\n")
    return from_json(out.read_bytes())


def _done(command: list[str], printed: int) -> int:
    """Run a program to its end, or end it."""
    with subprocess.Popen(  # noqa: S603 - this program itself
        command, stdin=subprocess.DEVNULL, stdout=printed, stderr=subprocess.STDOUT
    ) as process:
        try:
            return process.wait(_JOB_S)
        except subprocess.TimeoutExpired:
            process.terminate()
            raise _FailedError(f"the report could not be made: not over after {_JOB_S:.0f} s") from None
        except BaseException:
            process.terminate()
            raise


def _written(results: Results, folder: Path) -> None:
    """The report as a page and as Markdown; as JSON the job wrote it.

    :raises _FailedError: if it cannot be written.
    """
    try:
        write(folder / "report.html", page(results))
        write(folder / "report.md", markdown(results))
    except Unusable as error:
        raise _FailedError(error.message) from None
