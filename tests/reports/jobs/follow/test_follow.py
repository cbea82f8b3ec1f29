"""Following a log: what is counted, what is refused, and what a reader is told. Nothing of it needs Spark."""

import os
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from sluicegate.cli import main
from sluicegate.decisions.schema import SCHEMA
from sluicegate.decisions.spool import locked
from sluicegate_reports.jobs import follow as following
from sluicegate_reports.jobs.follow import Followed, FollowError, findings, follow
from sluicegate_reports.model.listing import Listing, listing
from sluicegate_reports.model.locations import Location, LocationError

START = datetime(2026, 11, 21, 12, tzinfo=UTC)


def put_file(log: Path, number: int, decisions: int = 1) -> Path:
    """A finished file of three rows on one topic; its first allow has 10**number messages."""
    folder = log / "run=r" / "system=kafka"
    folder.mkdir(parents=True, exist_ok=True)
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
        {**base, "time": START + timedelta(seconds=number), "messages": 10**number},
        {**base, "time": START, "action": "reject", "policy": "max_publish_rate"},
        {**base, "time": START + timedelta(minutes=1)},
    ]
    file = folder / f"part-main-{number:05}.parquet"
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), file)
    return file


def counted(sums: Followed) -> tuple[int, int]:
    """Messages, whose digits tell how often each file is in the sums; and decisions."""
    rows = sums.totals.to_pylist()
    return sum(row["messages"] for row in rows), sum(row["decisions"] for row in rows)


def known(log: Path, state: Path) -> tuple[int, int]:
    """What is counted after a call that reads each file on its own."""
    return counted(follow(log, state, files_per_batch=1))


def test_files_count_once_however_late_and_old_they_are(tmp_path: Path) -> None:
    log, state = tmp_path / "log", tmp_path / "state"
    for number in (0, 1, 3):
        put_file(log, number)
    assert known(log, state) == (1011, 9)
    late = put_file(log, 2)
    os.utime(late, (0, 0))
    sums = follow(log, state)
    assert (counted(sums), sums.batches, sums.new_batches, sums.new_rows) == ((1111, 12), 4, 1, 3)
    compacted = log / "run=r" / "system=kafka" / "date=2026-11-21"
    compacted.mkdir()
    put_file(log, 4).rename(compacted / "part-0123456789abcdef.parquet")
    assert known(log, state) == known(log, state) == (11111, 15)


def test_a_log_that_has_moved_counts_once(tmp_path: Path) -> None:
    put_file(tmp_path / "log", 0)
    assert known(tmp_path / "log", tmp_path / "state") == (1, 3)
    (tmp_path / "log").rename(tmp_path / "moved")
    put_file(tmp_path / "moved", 1)
    assert known(tmp_path / "moved", tmp_path / "state") == (11, 6)


def test_sums_list_refusals_first(tmp_path: Path) -> None:
    put_file(tmp_path / "log", 1, decisions=7)
    results = findings(follow(tmp_path / "log", tmp_path / "state"))
    assert results.facts["read by this call"] == "3 rows of the log"
    assert results.summary == "21 decisions, of them 7 refused or dropped."
    assert [row[5:9] for row in results.tables()["sums"].rows] == [
        ("max_publish_rate", "reject", 7, 0),
        (None, "allow", 14, 10),
    ]


def test_times_are_in_utc_wherever_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_file(tmp_path / "log", 0)
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        results = findings(follow(tmp_path / "log", tmp_path / "state"))
    finally:
        monkeypatch.undo()
        time.tzset()
    times = {row[-2:] for row in results.tables()["sums"].rows}
    assert times == {("2026-11-21 12:00", "2026-11-21 12:00"), ("2026-11-21 12:00", "2026-11-21 12:01")}


def test_an_empty_log_has_no_findings_yet(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    sums = follow(tmp_path / "log", tmp_path / "state")
    assert (sums.batches, counted(sums)) == (0, (0, 0))
    nothing = put_file(tmp_path / "log", 0)
    pq.write_table(SCHEMA.empty_table(), nothing)
    assert follow(tmp_path / "log", tmp_path / "state").batches == 0


@pytest.mark.parametrize("inside", [False, True])
def test_a_damaged_file_is_named_and_none_of_it_is_counted(tmp_path: Path, inside: bool) -> None:
    put_file(tmp_path / "log", 1)
    broken = put_file(tmp_path / "log", 2)
    content = bytearray(broken.read_bytes())
    end = 4_000 if inside else len(content)
    content[4:end] = b"\xff" * (end - 4)
    broken.write_bytes(content)
    for _ in range(2):
        with pytest.raises(FollowError, match=r"part-main-00002.parquet is damaged.*\n.*then call again"):
            follow(tmp_path / "log", tmp_path / "state")
    broken.rename(tmp_path / "aside.parquet")
    assert known(tmp_path / "log", tmp_path / "state") == (10, 3)


def test_a_file_that_a_gateway_removes_meanwhile_is_no_damaged_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_file(tmp_path / "log", 0)
    oldest = put_file(tmp_path / "log", 1)

    def listed_then_removed(folder: Location) -> Listing:
        files = listing(folder)
        oldest.unlink(missing_ok=True)
        return files

    monkeypatch.setattr(following, "listing", listed_then_removed)
    assert known(tmp_path / "log", tmp_path / "state") == (1, 3)


def test_a_state_with_a_checkpoint_of_spark_is_refused(tmp_path: Path) -> None:
    put_file(tmp_path / "log", 1)
    for left in ("checkpoint/offsets", "sums/batch=0"):
        old = tmp_path / left.replace("/", "-")
        (old / left).mkdir(parents=True)
        (old / left / "0").touch()
        with pytest.raises(FollowError, match=r"earlier release.*remove all of it and call again"):
            follow(tmp_path / "log", old)


def test_sums_that_are_damaged_are_refused(tmp_path: Path) -> None:
    put_file(tmp_path / "log", 1)
    assert known(tmp_path / "log", tmp_path / "state") == (10, 3)
    (tmp_path / "state" / "sums" / "batch-0.parquet").write_bytes(b"PAR1")
    with pytest.raises(LocationError, match=r"cannot read .*batch-0.parquet: .*put it back, or remove all"):
        follow(tmp_path / "log", tmp_path / "state")


def test_a_second_call_at_the_same_time_is_refused(tmp_path: Path) -> None:
    put_file(tmp_path / "log", 1)
    (tmp_path / "state").mkdir()
    command = ["report", "follow", str(tmp_path / "log"), "--state", str(tmp_path / "state")]
    with locked(tmp_path / "state") as mine:
        assert mine
        refused = CliRunner().invoke(main, command)
    assert (refused.exit_code, "another call uses" in refused.stderr) == (2, True)
    assert CliRunner().invoke(main, command).exit_code == 0


def test_it_needs_no_spark(tmp_path: Path) -> None:
    put_file(tmp_path / "log", 1)
    command = ["report", "follow", str(tmp_path / "log"), "--state", str(tmp_path / "state")]
    program = "import sys\nsys.modules['pyspark'] = None\nfrom sluicegate.cli import main\nmain()"
    done = subprocess.run(
        [sys.executable, "-c", program, *command], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "3 rows of the log" in done.stdout
