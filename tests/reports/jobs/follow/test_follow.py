"""Following a log: a job that is killed between batches and repeated loses and doubles nothing."""

import json
import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from tests.reports.conftest import SETTINGS
from tests.reports.jobs import daemons

from sluicegate.decisions.schema import SCHEMA
from sluicegate_reports.jobs import follow_sums
from sluicegate_reports.jobs.follow import FollowError, findings, follow

PARTITIONS = "spark.sql.shuffle.partitions"
KILLED = """
import json, os, signal, sys
from sluicegate_reports.jobs import follow, follow_sums
from sluicegate_reports.spark.session import spark_session

log, state, settings = sys.argv[1:]
place = follow_sums.place_batch
def place_and_die(unfinished, target):
    place(unfinished, target)
    if target.name == "batch=1":
        os.killpg(0, signal.SIGKILL)
follow_sums.place_batch = place_and_die
session = spark_session("follow", json.loads(settings), little=True)
follow.follow(session, log, state, files_per_batch=1)
"""


def put_file(log: Path, number: int, decisions: int = 1) -> None:
    """A finished file of three rows on one topic; its first allow has 10**number messages."""
    folder = log / "run=r" / "system=kafka"
    folder.mkdir(parents=True, exist_ok=True)
    start = datetime(2026, 11, 21, 12, tzinfo=UTC)
    base = {
        "run": "r",
        "system": "kafka",
        "door": "proxy",
        "gateway": "main",
        "namespace": "default",
        "topic": "orders",
        "operation": "publish",
        "factor": 1.0,
        "delay": 0,
        "bytes": 10,
        "messages": 0,
        "policy_version": 1,
        "decisions": decisions,
        "window": 0,
        "action": "allow",
    }
    rows = [
        {**base, "time": start + timedelta(seconds=number), "messages": 10**number},
        {**base, "time": start, "action": "reject", "policy": "max_publish_rate"},
        {**base, "time": start + timedelta(minutes=1)},
    ]
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), folder / f"part-main-{number:05}.parquet")


def known(spark: SparkSession, log: Path, state: Path) -> tuple[int, int]:
    """Messages of the sums, whose digits tell how often each file is in them; and decisions."""
    rows = follow(spark, log, state, files_per_batch=1).sums.collect()
    return sum(row["messages"] for row in rows), sum(row["decisions"] for row in rows)


def stored_and_noted(state: Path) -> tuple[list[str], list[str]]:
    """The batches that count, and those of them that Spark's checkpoint knows to be done."""
    sums, commits = state / "sums", state / "checkpoint" / "commits"
    return (
        sorted(each.name for each in sums.glob("batch=*")),
        sorted(each.name for each in commits.glob("[0-9]*")),
    )


def fail(unfinished: Path, target: Path) -> None:
    raise RuntimeError("the end")


def test_a_job_killed_between_batches_and_repeated_neither_loses_nor_doubles_rows(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, state = tmp_path / "log", tmp_path / "state"
    for number in range(4):
        put_file(log, number)
    command = [sys.executable, "-c", KILLED, str(log), str(state), json.dumps(SETTINGS)]
    ended = subprocess.run(command, start_new_session=True, capture_output=True, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()[-2000:]
    assert stored_and_noted(state) == (["batch=0", "batch=1"], ["0"])
    # Then before the batch is in its place. Spark has written nothing since, so that an exception leaves
    # the same files as an end of the process.
    with monkeypatch.context() as patch:
        patch.setattr(follow_sums, "place_batch", fail)
        with pytest.raises(StreamingQueryException, match="the end"):
            follow(spark, log, state, files_per_batch=1)
    assert stored_and_noted(state) == (["batch=0", "batch=1"], ["0"])
    assert (state / "sums" / ".batch-1.unfinished" / "_SUCCESS").exists()
    assert known(spark, log, state) == (1111, 12)
    # It comes late, and is a month older than the newest.
    put_file(log, 4)
    late = log / "run=r" / "system=kafka" / "part-main-00004.parquet"
    os.utime(late, (late.stat().st_atime, late.stat().st_mtime - 30 * 86_400))
    assert known(spark, log, state) == (11111, 15)
    assert known(spark, log, state) == (11111, 15)


def test_a_log_is_followed_over_spark_connect(spark: SparkSession, tmp_path: Path) -> None:
    put_file(tmp_path / "log", 1)
    command = [sys.executable, "-c", "from sluicegate.cli import main\nmain()", "report", "follow"]
    done = subprocess.run(
        [*command, str(tmp_path / "log"), "--state", str(tmp_path / "state")],
        env=daemons.environment(SPARK_REMOTE=daemons.connect(spark)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "3 rows of the log" in done.stdout


def test_sums_list_refusals_first(spark: SparkSession, tmp_path: Path) -> None:
    put_file(tmp_path / "log", 1, decisions=7)
    found = findings(follow(spark, tmp_path / "log", tmp_path / "state"))
    assert found.facts["read by this call"] == "3 rows of the log"
    assert found.summary == "21 decisions, of them 7 refused or dropped."
    assert [row[5:9] for row in found.tables()["sums"].rows] == [
        ("max_publish_rate", "reject", 7, 0),
        (None, "allow", 14, 10),
    ]


def test_times_are_in_utc_wherever_it_runs(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_file(tmp_path / "log", 0)
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        found = findings(follow(spark, tmp_path / "log", tmp_path / "state"))
    finally:
        monkeypatch.undo()
        time.tzset()
    times = {row[-2:] for row in found.tables()["sums"].rows}
    assert times == {("2026-11-21 12:00", "2026-11-21 12:00"), ("2026-11-21 12:00", "2026-11-21 12:01")}


def test_a_batch_is_summed_in_few_parts(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts: list[str | None] = []
    summed = follow_sums.summed

    def watched(batch: DataFrame) -> DataFrame:
        parts.append(batch.sparkSession.conf.get(PARTITIONS))
        return summed(batch)

    monkeypatch.setattr(follow_sums, "summed", watched)
    put_file(tmp_path / "log", 1)
    before = spark.conf.get(PARTITIONS) or ""
    spark.conf.set(PARTITIONS, "200")
    try:
        assert follow(spark, tmp_path / "log", tmp_path / "state").batches == 1
    finally:
        spark.conf.set(PARTITIONS, before)
    assert parts == ["2"]


def test_an_empty_log_has_no_findings_yet(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    followed = follow(spark, tmp_path / "log", tmp_path / "state")
    assert (followed.batches, followed.sums.collect()) == (0, [])


def test_a_damaged_file_is_named_and_none_of_it_is_counted(spark: SparkSession, tmp_path: Path) -> None:
    put_file(tmp_path / "log", 1)
    broken = tmp_path / "log" / "run=r" / "system=kafka" / "part-main-9.parquet"
    broken.write_bytes(b"PAR1" + os.urandom(100))
    with pytest.raises(FollowError, match=r"part-main-9.parquet is damaged"):
        follow(spark, tmp_path / "log", tmp_path / "state")
    assert not list((tmp_path / "state").glob("*")) if (tmp_path / "state").exists() else True
