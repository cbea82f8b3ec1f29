"""Directories in all states: whole, empty, truncated, damaged, foreign, of other versions, half written."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from tests.reports import recorded

from sluicegate.decisions.schema import SCHEMA, VERSION_KEY
from sluicegate.decisions.spool import Spool, encode, partition
from sluicegate_reports.model import observations
from sluicegate_reports.model.listing import listing
from sluicegate_reports.model.locations import File, Location
from sluicegate_reports.model.observations import Event, Observation, ObservationLog, Role
from sluicegate_reports.spark.log_files import DECISIONS, LeftOut
from sluicegate_reports.spark.reading import Log, is_damage, read_decisions, read_observations
from sluicegate_reports.spark.spools import take_spool


def write(directory: Path, name: str, count: int = 3, metadata: dict[bytes, bytes] | None = None) -> Path:
    path = recorded.write_decisions(directory, [recorded.decision(n) for n in range(count)], name)
    if metadata is not None:
        pq.write_table(pq.ParquetFile(path).read().replace_schema_metadata(metadata), path)
    return path


def reasons(log: Log) -> dict[str, str]:
    return {left_out.path.name: left_out.reason for left_out in log.left_out}


@pytest.mark.parametrize("read", [read_decisions, read_observations])
def test_a_directory_without_files_has_no_rows_and_all_columns(
    spark: SparkSession, tmp_path: Path, read: Callable[[Path], Log]
) -> None:
    for directory in (tmp_path, tmp_path / "missing"):
        log = read(directory)
        assert (log.files, log.rows, log.left_out, log.frame(spark).count()) == (0, 0, (), 0)
        assert "client" in log.frame(spark).columns


def test_whole_files_are_read_with_all_columns_and_in_utc(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, "part-a-1.parquet")
    write(tmp_path, "part-a-2.parquet", 2)
    log = read_decisions(tmp_path)
    assert (log.files, log.rows, log.left_out) == (2, 5, ())
    assert log.frame(spark).columns == SCHEMA.names
    rows = log.frame(spark).selectExpr("unix_micros(time) as at", "topic", "bytes").distinct().collect()
    start_us = int(datetime(2026, 11, 21, 12, tzinfo=UTC).timestamp()) * 1_000_000
    assert sorted(row["at"] for row in rows) == [start_us, start_us + 1, start_us + 2]
    assert {(row["topic"], row["bytes"]) for row in rows} == {(recorded.TOPIC, 100)}


def cut(path: Path, lost: list[str], metadata: dict[bytes, bytes]) -> None:
    """Write a file without some of its columns."""
    table = pq.ParquetFile(path).read().drop_columns(lost)
    pq.write_table(table.replace_schema_metadata(metadata), path)


def observed(directory: Path) -> Path:
    with ObservationLog(directory, "r1", "kafka", "proxy", "steady") as writer:
        writer.add(Observation(1, "p1", Role.PRODUCER, "orders", Event.SENT, 0))
    (path,) = directory.rglob("part-*.parquet")
    return path


def test_an_older_file_has_nulls_for_what_it_lacks(spark: SparkSession, tmp_path: Path) -> None:
    older = observed(tmp_path)
    cut(older, ["acknowledges"], {observations.VERSION_KEY: b"1"})
    older.rename(older.with_name("part-old.parquet"))
    with ObservationLog(tmp_path, "r1", "kafka", "proxy", "steady") as writer:
        writer.add(
            Observation(2, "c1", Role.CONSUMER, "orders", Event.ATTACHED, subscription="s", acknowledges=True)
        )
    log = read_observations(tmp_path)
    assert (log.files, log.left_out) == (2, ())
    assert {row["client"]: row["acknowledges"] for row in log.frame(spark).collect()} == {
        "p1": None,
        "c1": True,
    }


def test_a_file_that_lacks_columns_of_its_own_version_is_named_with_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    lacks = write(tmp_path, "part-lacks.parquet")
    cut(lacks, ["window", "policy"], {VERSION_KEY: b"1"})
    write(tmp_path, "part-whole.parquet", 2)
    log = read_decisions(tmp_path)
    assert (log.files, log.rows) == (1, 2)
    assert reasons(log) == {"part-lacks.parquet": "lacks columns of its schema version 1: policy, window"}
    seen = observed(tmp_path / "seen")
    cut(seen, ["acknowledges"], {observations.VERSION_KEY: b"2"})
    (reason,) = reasons(read_observations(tmp_path / "seen")).values()
    assert reason == "lacks columns of its schema version 2: acknowledges"


def test_unreadable_files_are_named_with_the_reason(spark: SparkSession, tmp_path: Path) -> None:
    whole = write(tmp_path, "part-whole.parquet")
    content = whole.read_bytes()
    whole.with_name("part-cut.parquet").write_bytes(content[: len(content) * 6 // 10])
    whole.with_name("part-empty.parquet").write_bytes(b"")
    whole.with_name("part-text.parquet").write_text("not Parquet at all")
    whole.with_name("notes.txt").write_text("mine")
    whole.with_name(".part-x.parquet.inprogress").write_bytes(content)
    write(tmp_path, "part-foreign.parquet", metadata={})
    write(tmp_path, "part-later.parquet", metadata={VERSION_KEY: b"99"})
    wrong = pa.table({"time": ["noon"]}).replace_schema_metadata({VERSION_KEY: b"1"})
    pq.write_table(wrong, whole.with_name("part-types.parquet"))
    log = read_decisions(tmp_path)
    assert (log.files, log.rows, log.frame(spark).count()) == (1, 3, 3)
    why = reasons(log)
    assert why.keys() == {
        "part-cut.parquet",
        "part-empty.parquet",
        "part-text.parquet",
        "notes.txt",
        ".part-x.parquet.inprogress",
        "part-foreign.parquet",
        "part-later.parquet",
        "part-types.parquet",
    }
    assert why["part-cut.parquet"].startswith("is damaged or cut short: ")
    assert why["part-empty.parquet"] == "is empty"
    assert why["notes.txt"] == "is no decision log: its name is not part-*.parquet"
    assert why[".part-x.parquet.inprogress"].startswith("was not finished")
    assert "lacks 'sluicegate.decisions.version'" in why["part-foreign.parquet"]
    assert "schema version 99, this release reads up to 2" in why["part-later.parquet"]
    assert why["part-types.parquet"] == "has columns of other types: time"


def test_damage_that_arrow_says_nothing_of_is_named_by_its_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "part-silent.parquet")
    monkeypatch.setattr(pq, "ParquetFile", Mock(side_effect=pa.ArrowInvalid("")))
    log = read_decisions(tmp_path)
    assert reasons(log) == {"part-silent.parquet": "is damaged or cut short: ArrowInvalid"}


def test_files_of_observations_are_not_read_as_decisions(spark: SparkSession, tmp_path: Path) -> None:
    observed(tmp_path)
    log = read_observations(tmp_path)
    assert (log.files, log.rows) == (1, 1)
    assert log.frame(spark).columns == observations.SCHEMA.names
    (reason,) = reasons(read_decisions(tmp_path)).values()
    assert reason.startswith("is no decision log")


def test_a_spool_is_read_to_its_last_whole_batch(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, "part-done.parquet", 2)
    folder = tmp_path / "run=r1" / "system=kafka"
    spool = Spool(folder, "part-live", {"run": "r1", "system": "kafka", "door": "proxy", "gateway": "main"})
    shared = {
        "namespace": "n",
        "topic": "t",
        "operation": "publish",
        "action": "allow",
        "factor": 1.0,
        "delay": 0,
        "bytes": 1,
        "messages": 1,
        "policy_version": 1,
        "decisions": 1,
        "window": 0,
    }
    spool.write(encode({"time": [1, 2, 3], **shared}))
    spool.write(encode({"time": [4, 5], **shared})[:-7])  # as a kill in the middle leaves it
    # One that has become Parquet already is read once.
    (folder / ".part-done.jsonl").write_bytes(spool.path.read_bytes())
    log = read_decisions(tmp_path)
    spool.close()
    assert (log.files, log.rows, log.left_out) == (2, 5, ())
    assert sorted(row[0] for row in log.frame(spark).selectExpr("unix_micros(time)").collect())[:3] == [
        1,
        2,
        3,
    ]


def test_a_spool_that_becomes_parquet_after_it_was_listed_is_read_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = partition(tmp_path, recorded.RUN, "kafka")
    folder.mkdir(parents=True)
    (folder / ".part-late.jsonl").touch()
    before = listing(tmp_path)
    write(tmp_path, "part-late.parquet")
    log = read_decisions(before)
    assert (log.files, log.rows, log.frame(spark).count(), log.left_out) == (1, 3, 3, ())
    (folder / ".part-late.jsonl").unlink()
    assert read_decisions(before).rows == read_decisions(tmp_path).rows == 3


def test_a_directory_that_was_listed_is_not_listed_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "decisions", "part-a.parquet")
    write(tmp_path / "decisions-of-others", "part-b.parquet")
    before = listing(tmp_path)
    monkeypatch.setattr(Location, "files", lambda location: pytest.fail(f"{location} was listed"))
    assert read_decisions(before.within("decisions")).rows == 3
    assert before.size == sum(file.stat().st_size for file in tmp_path.rglob("*.parquet"))


def test_a_spool_without_a_whole_batch_is_named(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "run=r1" / "system=kafka"
    Spool(folder, "part-live", {"run": "r1"}).close()
    assert list(reasons(read_decisions(tmp_path)).values()) == [
        "holds no whole batch of rows yet, or no more"
    ]


def test_a_spool_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    (tmp_path / ".part-live.jsonl").symlink_to(".part-live.jsonl")  # not even root can open it
    file = File(Location(str(tmp_path / ".part-live.jsonl")), 1)
    left_out: list[LeftOut] = []
    assert take_spool(file, DECISIONS, lambda spool: len(spool.read_bytes()), left_out)
    assert [(each.path, each.reason) for each in left_out] == [
        (file.location, "cannot be read: Too many levels of symbolic links")
    ]


def test_a_thorough_reading_finds_damage_inside(spark: SparkSession, tmp_path: Path) -> None:
    damaged = write(tmp_path, "part-x.parquet", 1_000)
    content = bytearray(damaged.read_bytes())
    content[4:2_000] = b"\xff" * 1_996
    damaged.write_bytes(content)
    log = read_decisions(tmp_path)
    assert (log.files, log.left_out) == (1, ())
    with pytest.raises(Exception, match="part-x") as failed:
        log.frame(spark).agg({"time": "max", "messages": "sum"}).collect()
    assert is_damage(failed.value)
    assert not is_damage(ValueError("something else"))
    thorough = read_decisions(tmp_path, thorough=True)
    assert (thorough.files, thorough.frame(spark).count()) == (0, 0)
    assert reasons(thorough)["part-x.parquet"].startswith("is damaged or cut short: ")
