"""Merging the sums of a followed log: few folders over many calls, each batch counted once."""

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.reports.jobs.follow.test_follow import known, put_file

from sluicegate_reports.jobs import follow_sums
from sluicegate_reports.jobs.follow import FollowError, follow
from sluicegate_reports.jobs.follow_sums import Stored
from sluicegate_reports.model.places import place


def folder(sums: Path, name: str, *, whole: bool = True) -> None:
    (sums / name).mkdir(parents=True)
    (sums / name / ("_SUCCESS" if whole else "part-0.parquet")).touch()


def names(sums: Path) -> list[str]:
    return [each.folder.name for each in follow_sums.stored(place(sums))]


def test_a_batch_counts_once_at_each_step_of_a_merge(tmp_path: Path) -> None:
    for name in ("batch=0", "batch=1", "batch=2"):
        folder(tmp_path, name)
    folder(tmp_path, "batch=0-1", whole=False)
    assert names(tmp_path) == ["batch=0", "batch=1", "batch=2"]
    (tmp_path / "batch=0-1" / "_SUCCESS").touch()
    assert names(tmp_path) == ["batch=0-1", "batch=2"]
    shutil.rmtree(tmp_path / "batch=0")
    assert names(tmp_path) == ["batch=0-1", "batch=2"]
    folder(tmp_path, "batch=0-3")
    assert names(tmp_path) == ["batch=0-3"]


def test_batches_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for name in ("batch=10", "batch=9", "batch=0-8", "batch=x", ".batch-11.unfinished"):
        folder(tmp_path, name)
    assert names(tmp_path) == ["batch=0-8", "batch=9", "batch=10"]


@pytest.mark.parametrize("batches", [15, 16, 255, 256, 5_000])
def test_folders_are_few_however_many_batches_there_were(batches: int) -> None:
    found: list[Stored] = []
    written = 0
    for number in range(batches):
        found.append(Stored(number, number, place("/s")))
        while due := follow_sums._due(found):
            found = sorted({*found} - {*due} | {Stored(due[0].first, due[-1].last, place("/s"))})
            written += sum(each.batches for each in due)
    assert [(each.first, each.last) for each in found] == [
        (each.first, found[n + 1].first - 1 if n + 1 < len(found) else batches - 1)
        for n, each in enumerate(found)
    ]
    assert len(found) <= 15 * 4
    assert written <= 3 * batches


def test_many_calls_leave_few_folders_and_the_same_sums(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow_sums, "MERGED_AT_ONCE", 2)
    log, state = tmp_path / "log", tmp_path / "state"
    for number in range(3):
        put_file(log, number)
    assert known(spark, log, state) == (111, 9)
    assert sorted(each.name for each in (state / "sums").iterdir()) == ["batch=0-1", "batch=2"]
    # As if a call had been ended after the merge, before and while the old folders were removed.
    for left in ("batch=0", "batch=1"):
        shutil.copytree(state / "sums" / "batch=0-1", state / "sums" / left)
    (state / "sums" / "batch=0" / "_SUCCESS").unlink()
    assert known(spark, log, state) == (111, 9)
    put_file(log, 3)
    followed = follow(spark, log, state)
    assert (followed.batches, followed.new_batches) == (4, 1)
    assert sum(row["messages"] for row in followed.sums.collect()) == 1111
    assert sorted(each.name for each in (state / "sums").iterdir()) == ["batch=0-3"]


def test_sums_without_their_checkpoint_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    put_file(tmp_path / "log", 1)
    folder(tmp_path / "state" / "sums", "batch=0")
    with pytest.raises(FollowError, match="has sums and no checkpoint"):
        follow(spark, tmp_path / "log", tmp_path / "state")


def test_a_folder_that_cannot_be_removed_is_an_error(tmp_path: Path) -> None:
    place(tmp_path / "gone").remove()
    folder(tmp_path, "batch=0")
    place(tmp_path / "batch=0").remove()
    assert not list(tmp_path.iterdir())
    (tmp_path / "batch=0").touch()
    with pytest.raises(NotADirectoryError):
        place(tmp_path / "batch=0").remove()
