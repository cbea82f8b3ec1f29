"""The sums of a followed log: each row of the log counts once, wherever a call ends, and files stay few."""

import random
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.reports.jobs.follow.test_follow import START, counted, known, put_file

from sluicegate.decisions.schema import SCHEMA
from sluicegate_reports.jobs import follow_sums
from sluicegate_reports.jobs.follow import follow
from sluicegate_reports.jobs.follow_sums import KEYS, SUMMED, SUMS, Stored
from sluicegate_reports.model.locations import Location, locate

KILLED = """
import os, signal, sys
from pathlib import Path
from sluicegate_reports.jobs import follow

replace = Path.replace
def die_before(self, target):
    if target.name == "batch-1.parquet":
        os.kill(os.getpid(), signal.SIGKILL)
    return replace(self, target)
Path.replace = die_before
follow.follow(*sys.argv[1:], files_per_batch=1)
"""


class EndedError(Exception):
    """The end of a call."""


def names(sums: Path) -> list[str]:
    return [each.file.name for each in follow_sums.stored(locate(sums))]


def files(state: Path) -> list[str]:
    return sorted(each.name for each in (state / "sums").iterdir())


def test_a_call_that_is_killed_and_repeated_neither_loses_nor_doubles_rows(tmp_path: Path) -> None:
    log, state = tmp_path / "log", tmp_path / "state"
    for number in range(4):
        put_file(log, number)
    command = [sys.executable, "-c", KILLED, str(log), str(state)]
    ended = subprocess.run(command, capture_output=True, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()[-2000:]
    assert files(state) == [".batch-1.parquet.unfinished", "batch-0.parquet"]
    assert known(log, state) == known(log, state) == (1111, 12)
    assert files(state) == [f"batch-{number}.parquet" for number in range(4)]


def test_a_call_may_end_between_any_two_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps are what changes names in the state: a file gets its place, or is removed."""
    monkeypatch.setattr(follow_sums, "MERGED_AT_ONCE", 2)
    for number in range(4):
        put_file(tmp_path / "log", number)
    steps_left = 0
    replace, remove = Path.replace, Location.remove

    def step() -> None:
        nonlocal steps_left
        steps_left -= 1
        if steps_left < 0:
            raise EndedError

    def replaced(self: Path, target: Path) -> Path:
        step()
        done = replace(self, target)
        step()
        return done

    def removed(self: Location) -> None:
        step()
        remove(self)

    monkeypatch.setattr(Path, "replace", replaced)
    monkeypatch.setattr(Location, "remove", removed)
    for steps in range(100):
        state, steps_left = tmp_path / f"state-{steps}", steps
        try:
            assert known(tmp_path / "log", state) == (1111, 12)
            break
        except EndedError:
            steps_left = 100
            assert known(tmp_path / "log", state) == (1111, 12)
        assert files(state) == ["batch-0-3.parquet"]
    # Four batches and three merges, each before and after; six files are removed.
    assert steps == 20


def test_a_batch_counts_once_at_each_step_of_a_merge(tmp_path: Path) -> None:
    for name in ("batch-0.parquet", "batch-1.parquet", "batch-2.parquet", ".batch-0-1.parquet.unfinished"):
        (tmp_path / name).touch()
    assert names(tmp_path) == ["batch-0.parquet", "batch-1.parquet", "batch-2.parquet"]
    (tmp_path / "batch-0-1.parquet").touch()
    assert names(tmp_path) == ["batch-0-1.parquet", "batch-2.parquet"]
    (tmp_path / "batch-0.parquet").unlink()
    assert names(tmp_path) == ["batch-0-1.parquet", "batch-2.parquet"]
    (tmp_path / "batch-0-3.parquet").touch()
    assert names(tmp_path) == ["batch-0-3.parquet"]


def test_batches_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for name in ("batch-10", "batch-9", "batch-0-8", "batch-x", ".batch-11"):
        (tmp_path / f"{name}.parquet").touch()
    assert names(tmp_path) == ["batch-0-8.parquet", "batch-9.parquet", "batch-10.parquet"]


@pytest.mark.parametrize("batches", [15, 16, 255, 256, 5_000])
def test_files_are_few_however_many_batches_there_were(batches: int) -> None:
    stored: list[Stored] = []
    written = 0
    for number in range(batches):
        stored.append(Stored(number, number, locate("/s")))
        while due := follow_sums._due(stored):
            stored = sorted({*stored} - {*due} | {Stored(due[0].first, due[-1].last, locate("/s"))})
            written += sum(each.batches for each in due)
    assert [(each.first, each.last) for each in stored] == [
        (each.first, stored[n + 1].first - 1 if n + 1 < len(stored) else batches - 1)
        for n, each in enumerate(stored)
    ]
    assert len(stored) <= 15 * 4
    assert written <= 3 * batches


def test_many_calls_leave_few_files_and_the_same_sums(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow_sums, "MERGED_AT_ONCE", 2)
    log, state = tmp_path / "log", tmp_path / "state"
    for number in range(3):
        put_file(log, number)
    assert known(log, state) == (111, 9)
    assert files(state) == ["batch-0-1.parquet", "batch-2.parquet"]
    # As if a call had been ended after the merge, before the old files were removed.
    for left in ("batch-0.parquet", "batch-1.parquet"):
        shutil.copy(state / "sums" / "batch-0-1.parquet", state / "sums" / left)
    assert known(log, state) == (111, 9)
    put_file(log, 3)
    followed = follow(log, state)
    assert (followed.batches, followed.new_batches, counted(followed)) == (4, 1, (1111, 12))
    assert files(state) == ["batch-0-3.parquet"]


def test_sums_are_those_of_each_key_and_minute(tmp_path: Path) -> None:
    chance, expected = random.Random(1), Counter[tuple[object, ...]]()
    template = pq.read_table(put_file(tmp_path / "template", 0)).slice(0, 1).to_pylist()[0]
    for number in range(3):
        rows = []
        for _ in range(2_000):
            row = template | {
                name: chance.choice(["a", "b"]) for name in ("door", "gateway", "topic", "action")
            }
            row |= {name: chance.choice(["a", None]) for name in ("principal", "policy")}
            row |= {name: chance.randrange(1 << 40) for name in ("messages", "bytes", "delay")}
            row["time"] = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(
                microseconds=chance.randint(-(10**8), 10**8)
            )
            rows.append(row)
            key = (*(row[name] for name in KEYS), row["time"].replace(second=0, microsecond=0))
            summed = (row["decisions"], row["messages"], row["bytes"], row["delay"])
            expected.update({(*key, name): value for name, value in zip(SUMMED, summed, strict=True)})
        pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), put_file(tmp_path / "log", number))
    assert follow(tmp_path / "log", tmp_path / "state").batches == 1
    written = pq.read_table(tmp_path / "state" / "sums" / "batch-0.parquet")
    assert written.schema.equals(SUMS)
    sums = {
        (*(row[name] for name in KEYS), row["minute"], name): row[name]
        for row in written.to_pylist()
        for name in SUMMED
    }
    assert sums == expected
    assert written["minute"].to_pylist() == sorted(written["minute"].to_pylist())


def parts(minutes: int) -> Iterator[pa.Table]:
    """Sums of two topics in each minute, each of which comes in two parts that are far from one another."""
    for _ in range(2):
        for minute in range(minutes):
            keys = dict.fromkeys(KEYS, "x") | {"principal": None}
            row = {**keys, "minute": START + timedelta(minutes=minute), **dict.fromkeys(SUMMED, 1)}
            rows = [{**row, "topic": topic} for topic in "ab"]
            yield pa.Table.from_pylist(rows, schema=SUMS).drop_columns(["files"])


def test_more_sums_than_fit_into_memory_and_their_names_are_in_several_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow_sums, "_PIECE_ROWS", 20)
    monkeypatch.setattr(follow_sums, "_NAMES_AT_ONCE", 10)
    target = locate(tmp_path / "batch-0.parquet")
    named = [f"run=r/system=kafka/part-main-{number:05}.parquet" for number in range(100)]
    follow_sums._write(target, parts(50), iter(named))
    written = pq.ParquetFile(target.path)
    groups = [written.metadata.row_group(number).num_rows for number in range(written.num_row_groups)]
    assert (len(groups), max(groups), sum(groups)) == (5, 40, 200)
    (only,) = follow_sums.stored(locate(tmp_path))
    totals = follow_sums.totals([only]).sort_by("topic")
    assert (totals["topic"].to_pylist(), totals["decisions"].to_pylist()) == (["a", "b"], [100, 100])
    assert totals["last"].to_pylist()[0] == START + timedelta(minutes=49)
    read: list[int] = []
    names_of = follow_sums._named

    def watched(file: pq.ParquetFile, group: int) -> list[str]:
        read.append(group)
        return names_of(file, group)

    monkeypatch.setattr(follow_sums, "_named", watched)
    later = "run=r/system=kafka/part-main-00100.parquet"
    assert follow_sums.unknown([only], [later, named[25], named[98]]) == [later]
    assert read == [2, 4]
    assert follow_sums.unknown([only], named) == []


def test_files_that_cannot_be_removed_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for name in ("folder", "gone"):
        with pytest.raises(OSError, match=name):
            locate(tmp_path / name).remove()
