"""How long the comparison's queries take over a long decision log, beside DuckDB and Polars."""

import functools
import importlib.util
import os
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.harness import report_command, spark_cluster, synthetic
from benchmarks.harness.arms import Bench
from benchmarks.harness.jars import ROOT
from benchmarks.harness.names import ARROW, DUCKDB, LOCAL, ONE_WORKER, POLARS, SPARK, STANDALONE
from benchmarks.harness.processes import UnavailableError
from benchmarks.harness.scenario import Scenario
from sluicegate.host.children import python_command

_SIZES = (1_000_000, 10_000_000, 50_000_000)
_QUICK = 20
"""A quick run takes this part of each size."""
_ON_A_CLUSTER = 10_000_000
_FOLLOWED = 100_000
_BASELINE = 6_000_000
_TIMEOUT_S = 1_800


@functools.cache
def _log(rows: int) -> tuple[Path, synthetic.Written]:
    """The log of this many decisions, written once for all arms and rounds; gone with the process."""
    folder = tempfile.TemporaryDirectory(prefix="sluicegate-reports-")
    _KEPT.append(folder)
    return Path(folder.name), synthetic.write_decisions(Path(folder.name), rows)


_KEPT: list[tempfile.TemporaryDirectory[str]] = []


def _queries(rows: int) -> Callable[[Bench, str, bool], dict[str, float]]:
    def measure(_: Bench, arm: str, quick: bool) -> dict[str, float]:
        directory, written = _log(rows // _QUICK if quick else rows)
        seconds = (written.end - written.start).total_seconds()
        # A process of its own each time: what is measured is cold but for the files, which all arms read.
        done = subprocess.run(
            python_command("benchmarks.harness.queries", arm, str(directory), repr(seconds)),
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
        if done.returncode == 3:
            raise UnavailableError(done.stdout.strip())
        if done.returncode:
            raise RuntimeError(f"queries failed: {done.stderr[-500:]}")
        values = dict(line.split("=") for line in done.stdout.split())
        return {name: float(value) for name, value in values.items()} | {"rows": float(written.rows)}

    return measure


def _end_to_end(bench: Bench, _: str, quick: bool) -> dict[str, float]:
    """The command as a user runs it: interpreter, all figures, the page."""
    rows = 1_000_000 // _QUICK if quick else 1_000_000
    directory = bench.directory / f"run-{rows}"
    if not directory.exists():
        synthetic.write_comparison(directory, rows)
    measured = report_command.measured(directory, bench.directory, _TIMEOUT_S)
    return {name: measured[name] for name in ("all_s", "page_kib")}


def _observed_run(bench: Bench, rows: int) -> Path:
    directory = bench.directory / f"observed-{rows}"
    if not directory.exists():
        synthetic.write_comparison(directory, rows, observed=True)
    return directory


def _on_a_cluster(bench: Bench, arm: str, quick: bool) -> dict[str, float]:
    directory = _observed_run(bench, _ON_A_CLUSTER // _QUICK if quick else _ON_A_CLUSTER)
    if arm == LOCAL:
        return report_command.measured(directory, bench.directory, _TIMEOUT_S, master="local[2]")
    with spark_cluster.standalone(bench.directory / "cluster") as master:
        return report_command.measured(directory, bench.directory, _TIMEOUT_S, master=master)


def _one_topic(bench: Bench, arm: str, quick: bool) -> dict[str, float]:
    rows = _ON_A_CLUSTER // _QUICK if quick else _ON_A_CLUSTER
    directory = bench.directory / f"one-topic-{rows}"
    if not directory.exists():
        synthetic.write_comparison(directory, rows, one_topic=True)
    workers = {ONE_WORKER: 1, LOCAL: 2}[arm]
    # Beside its Python process a task keeps Java busy: without a bound one worker would use more than a core.
    return report_command.measured(
        directory, bench.directory, _TIMEOUT_S, master=f"local[{workers}]", cores=workers
    )


def _observed(rows: int) -> Callable[[Bench, str, bool], dict[str, float]]:
    def measure(bench: Bench, arm: str, quick: bool) -> dict[str, float]:
        wanted = rows // _QUICK if quick else rows
        directory = _observed_run(bench, wanted)
        if arm == DUCKDB:
            if importlib.util.find_spec("duckdb") is None:
                raise UnavailableError("duckdb is not installed")
            return report_command.measured_in_sql(directory, bench.directory, _TIMEOUT_S)
        return report_command.measured(directory, bench.directory, _TIMEOUT_S)

    return measure


def _follow(bench: Bench, _: str, quick: bool) -> dict[str, float]:
    directory, written = _log(_FOLLOWED // _QUICK if quick else _FOLLOWED)
    return report_command.followed(directory, bench.directory, _TIMEOUT_S) | {"rows": float(written.rows)}


def _recommend(bench: Bench, _: str, quick: bool) -> dict[str, float]:
    directory, written = _log(_BASELINE // _QUICK if quick else _BASELINE)
    return report_command.recommended(directory, bench.directory, _TIMEOUT_S) | {"rows": float(written.rows)}


_scenario = functools.partial(Scenario, rounds=3, cold_round=False)
_END_TO_END = _scenario(
    "report-1m",
    "`sluicegate report compare` over 1 M decisions, the page included: seconds",
    (ARROW,),
    _end_to_end,
)
_FIVE_QUERIES = tuple(
    _scenario(
        f"reports-{rows // 1_000_000}m",
        f"five queries of the comparison over {rows // 1_000_000} M decisions: seconds, each cold",
        (SPARK, DUCKDB, POLARS),
        _queries(rows),
    )
    for rows in _SIZES
)
_OBSERVED = tuple(
    _scenario(
        f"report-observed-{rows // 1_000_000}m",
        f"`sluicegate report compare` over {rows // 1_000_000} M decisions and what clients saw of them: "
        "seconds, CPU, peak memory of Java, bytes shuffled; DuckDB on the same work",
        (ARROW if rows == _SIZES[0] else SPARK, DUCKDB),
        _observed(rows),
        rounds=1,
    )
    for rows in _SIZES
)
_CLUSTER = _scenario(
    "report-on-a-cluster",
    "`sluicegate report compare` over 10 M decisions and what clients saw of them, on a standalone cluster "
    "of two workers and on `local[2]`: seconds",
    (LOCAL, STANDALONE),
    _on_a_cluster,
)
_ONE_TOPIC = _scenario(
    "report-one-topic-10m",
    "`sluicegate report compare` over 10 M decisions of one topic, by one worker of Spark and by two: "
    "seconds; `jobs_s` without Spark's start",
    (ONE_WORKER, LOCAL),
    _one_topic,
)
_FOLLOW = _scenario(
    "follow-100k",
    "`sluicegate report follow` over 100,000 new decisions: seconds, CPU, peak memory",
    (ARROW,),
    _follow,
)
_RECOMMEND = _scenario(
    "recommend-6m",
    "`sluicegate report recommend` over 6 M decisions: seconds, CPU, peak memory",
    (ARROW,),
    _recommend,
)
SCENARIOS = (_END_TO_END, *_OBSERVED, _CLUSTER, _ONE_TOPIC, *_FIVE_QUERIES, _FOLLOW, _RECOMMEND)
