"""How long the comparison's queries take over a long decision log, beside DuckDB and Polars."""

import functools
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.harness import synthetic
from benchmarks.harness.arms import Bench
from benchmarks.harness.jars import ROOT
from benchmarks.harness.names import DUCKDB, POLARS, SPARK
from benchmarks.harness.processes import UnavailableError
from benchmarks.harness.scenario import Scenario

_SIZES = (1_000_000, 10_000_000, 50_000_000)
_QUICK = 20
"""A quick run takes this part of each size."""
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
            [sys.executable, "-m", "benchmarks.harness.queries", arm, str(directory), repr(seconds)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONSAFEPATH": "1"},
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


SCENARIOS = tuple(
    Scenario(
        f"reports-{rows // 1_000_000}m",
        f"five queries of the comparison over {rows // 1_000_000} M decisions: seconds, each cold",
        (SPARK, DUCKDB, POLARS),
        _queries(rows),
        rounds=3,
        cold_round=False,
    )
    for rows in _SIZES
)
