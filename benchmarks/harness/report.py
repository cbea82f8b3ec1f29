"""Results as a table in the terminal, as JSON and as Markdown."""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from rich.table import Table

from benchmarks.harness.figures import FIGURES
from benchmarks.harness.jars import ROOT
from benchmarks.harness.samples import Results, mid
from sluicegate.output.console import Console
from sluicegate_reports.runner.machine import machine

_PIPE_WIDTH = 160
Rows = Sequence[Sequence[str]]


def environment(command: str) -> dict[str, str]:
    """What the figures depend on: machine, versions, commit."""
    commit = _output("git", "-C", str(ROOT), "rev-parse", "--short", "HEAD") or "unknown"
    changed = _output("git", "-C", str(ROOT), "status", "--porcelain", "--untracked-files=no")
    about = machine()
    return {
        "command": command,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit + (" with local changes" if changed else ""),
        "machine": f"{about['cpu']}, {about['cores']} cores, {about['kernel']}",
        "load at start": " ".join(f"{value:.2f}" for value in os.getloadavg()),
        "python": platform.python_version(),
        "java": _output("java", "-version").partition("\n")[0],
        "haproxy": _output("/usr/sbin/haproxy", "-v").partition("\n")[0],
        "nginx": _output("nginx", "-v"),
        "envoy": _output("envoy", "--version").partition("\n")[0],
        "kroxylicious": "0.12.0",
        "strimzi quota plug-in": "0.3.1",
        "pulsar": "4.2.4",
        "pulsar proxy": "4.0.8",
        "pulsar-client": version("pulsar-client"),
    }


def show(results: Results) -> None:
    """Print one table for each scenario and one of the figures."""
    console = Console(width=None if sys.stdout.isatty() else _PIPE_WIDTH)
    for title, header, rows in _tables(results):
        table = Table(*header, title=title, title_justify="left")
        for row in rows:
            table.add_row(*row)
        console.print(table)
    for what, reason in results.skipped.items():
        console.print(f"skipped {what}: {reason}", style="yellow")
    for error in results.failed:
        console.print(f"failed {error}", style="red")


def markdown(results: Results, about: dict[str, str]) -> str:
    """The same tables as Markdown, with the circumstances above them."""
    parts = ["# Benchmark results\n", *(f"- {key}: {value}" for key, value in about.items()), ""]
    for title, header, rows in _tables(results):
        parts += [f"## {title}\n", _line(header), _line("---" for _ in header), *map(_line, rows), ""]
    if results.skipped:
        parts += ["## Skipped\n", *(f"- {what}: {reason}" for what, reason in results.skipped.items()), ""]
    if results.failed:
        parts += ["## Failed\n", *(f"- {error}" for error in results.failed), ""]
    return "\n".join(parts)


def write(results: Results, about: dict[str, str], directory: Path) -> Path:
    """Write both files; returns the path of the Markdown one."""
    directory.mkdir(parents=True, exist_ok=True)
    stem = directory / datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    content = {
        "about": about,
        "skipped": results.skipped,
        "failed": results.failed,
        "samples": [asdict(sample) for sample in results.samples],
    }
    stem.with_suffix(".json").write_text(json.dumps(content, indent=1))
    target = stem.with_suffix(".md")
    target.write_text(markdown(results, about))
    return target


def missed(results: Results) -> list[str]:
    """The figures that were measured and do not keep their bound."""
    measured = [(figure, figure.measured(results)) for figure in FIGURES]
    return [figure.text for figure, value in measured if value is not None and not figure.met(value)]


def _tables(results: Results) -> Iterable[tuple[str, list[str], Rows]]:
    scenarios = dict.fromkeys(sample.scenario for sample in results.samples)
    for scenario in scenarios:
        yield _scenario_table(results, scenario)
    rows = []
    for figure in FIGURES:
        value = figure.measured(results)
        if value is not None:
            verdict = "met" if figure.met(value) else "MISSED"
            rows.append([figure.text, figure.bound_text, f"{value:.4g} {figure.unit}".strip(), verdict])
    if rows:
        yield "Figures (median over the rounds)", ["figure", "bound", "measured", ""], rows


def _scenario_table(results: Results, scenario: str) -> tuple[str, list[str], Rows]:
    samples = [sample for sample in results.samples if sample.scenario == scenario]
    names = list(dict.fromkeys(name for sample in samples for name in sample.values))
    arms = dict.fromkeys(sample.arm for sample in samples)
    rows = [[arm, *(_cell(results, scenario, arm, name) for name in names)] for arm in arms]
    rounds = len({sample.round for sample in samples if sample.round})
    title = f"{scenario}: median of {rounds} interleaved rounds (least to most; cold round)"
    if len(rows) == 1 and len(names) > 1:  # one arm with many values reads better upright
        return title, ["", rows[0][0]], [[name, cell] for name, cell in zip(names, rows[0][1:], strict=True)]
    return title, ["arm", *names], rows


def _cell(results: Results, scenario: str, arm: str, name: str) -> str:
    values = list(results.of(scenario, arm, name).values())
    if not values:
        return "-"
    cold = results.cold(scenario, arm, name)
    beside = f"{_number(min(values))} to {_number(max(values))}"
    return f"{_number(mid(values))} ({beside}{f'; {_number(cold)}' if cold is not None else ''})"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _output(*argv: str) -> str:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return (done.stdout or done.stderr).strip()
