"""Another package with an entry point, installed for a test as pip does it."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluicegate_reports import registry

EXTENSION = """
from sluicegate_reports.registry import Door, Extension, Family, Measured, System
from sluicegate_reports.registry.arms import PRODUCERS, Lack

RIVER = System(
    "river",
    label="a river, not a broker",
    colour=5,
    unordered_calls=True,
    codes={"LOCK_FULL": (PRODUCERS,)},
    texts=(("the lock takes no more barges", PRODUCERS),),
    lacks=(Lack("max_delivery_delay", "water does not wait", door="lock"),),
)
REPORTS = Extension(
    systems=(RIVER,),
    doors=(Door("lock", 3), Door("bank", 2, gate=False)),
    policies={"max_barge_rate": Measured(Family.RATE, "publish", "messages/s")},
)
"""


def install(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch, module: str = "river_reports") -> None:
    """Install a package with one module, whose `REPORTS` is its entry point."""
    (folder / f"{module}.py").write_text(text)
    facts = folder / f"{module}-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(f"[{registry.GROUP}]\n{module} = {module}:REPORTS\n")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, module, raising=False)  # another test's package of that name
    registry.forget()


def installed(folder: Path, text: str = EXTENSION) -> Iterator[None]:
    """For fixtures: the package is there until the test is over."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        install(folder, text, monkeypatch)
        yield
    registry.forget()


METRIC = """
from pyspark.sql import functions as F
from sluicegate_reports.registry import Bound, Extension, Family, Metric

from sluicegate_reports.model.verdict import Verdict
from sluicegate_reports.model.finding import Finding


def largest(observations, tries):
    received = observations.where(F.col("event") == "received")
    size = F.max("bytes").alias("largest_barge")
    return received.join(tries, on=["system", "door", "topic"]).groupBy("trial").agg(size)


def rule(trial, figures):
    largest = figures.get("largest_barge")
    if largest is None:
        return None
    verdict = Verdict.OFF if largest > 99 else Verdict.EXACT
    return Finding(verdict, largest, 99, "bytes", f"the largest barge had {largest} bytes")


REPORTS = Extension(
    metrics=(
        Metric(
            "largest_barge",
            "largest barge",
            (Family.RATE,),
            "bytes",
            bound=Bound("largest_barge_bytes", 99, "bytes of the largest barge", total=False, unit="bytes"),
            transform=largest,
            rule=rule,
        ),
    )
)
"""
"""A package that brings one metric: one transform, one rule, one row."""
KIND = """
from sluicegate_reports.registry import Extension, Kind

REPORTS = Extension(kinds={{"{}": Kind("{{name}}", "click", "river:Driver")}})
"""
"""A package that brings how to play a system of the given name."""
ARM = """
from sluicegate_reports.registry import Extension

REPORTS = Extension(arms=("{}",))
"""
"""A package that brings an arm at the given place."""
