"""However a log is cut into slices of time, all figures are the same, to the message."""

import json
from dataclasses import fields
from pathlib import Path

import pytest
from tests.reports.planted import faults, perfect
from tests.reports.planted.book import Book

from sluicegate_reports.jobs.measuring import measure
from sluicegate_reports.jobs.slices import cuts
from sluicegate_reports.model.runs import DECISIONS, OBSERVATIONS, Run
from sluicegate_reports.spark.reading import read_decisions, read_observations
from sluicegate_reports.transforms.here import packed_here
from sluicegate_reports.transforms.packed import TOPIC_COLUMNS
from sluicegate_reports.transforms.packing import Cuts, Source


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Run]:
    directory = tmp_path_factory.mktemp("sliced")
    book = Book()
    for fault in faults.library():
        fault.plant(book, fault.name)
    for trial in perfect.library():
        trial.play(book, trial.name)
    return directory, book.write(directory)


def measured(directory: Path, run: Run, cuts: Cuts) -> dict[str, list[str]]:
    """All figures, in a fixed order."""
    logs = {
        DECISIONS: read_decisions(directory / DECISIONS),
        OBSERVATIONS: read_observations(directory / OBSERVATIONS),
    }
    sources = {name: Source(log.paths, log.spools) for name, log in logs.items()}
    measures = measure(run.trials, packed_here(sources, cuts=cuts), available=logs)
    rows_of = {each.name: getattr(measures, each.name) for each in fields(measures)} | {"clocks": []}
    return {name: sorted(json.dumps(row, sort_keys=True) for row in rows) for name, rows in rows_of.items()}


@pytest.fixture(scope="module")
def whole(written: tuple[Path, Run]) -> dict[str, list[str]]:
    return measured(*written, {})


@pytest.mark.parametrize("length_us", [3_000_001, 11_700_000])
def test_slices_of_any_length_give_the_same(
    written: tuple[Path, Run], whole: dict[str, list[str]], length_us: int
) -> None:
    directory, run = written
    lengths: Cuts = {(trial.system, trial.door, trial.topic): length_us for trial in run.trials}
    sliced = measured(directory, run, lengths)
    assert sliced.keys() == whole.keys()
    for name, rows in whole.items():
        # Of so many rows a difference is told by some.
        differ = sorted(set(rows) ^ set(sliced[name]))[:3]
        assert (name, differ) == (name, [])
        assert len(sliced[name]) == len(rows), name
    assert whole["laws"]
    assert whole["deliveries"]


def test_only_topics_with_many_rows_are_cut(written: tuple[Path, Run]) -> None:
    directory, run = written
    log = read_decisions(directory / DECISIONS)
    assert cuts(run, [log]) == {}
    starts = cuts(run, [log], slice_rows=100)
    topic_keys = [tuple(row.values()) for each in log.tables(TOPIC_COLUMNS) for row in each.to_pylist()]
    assert starts
    assert starts.keys() < set(topic_keys)
    assert all(length_us % 1_000_000 == 0 and length_us > 0 for length_us in starts.values())
