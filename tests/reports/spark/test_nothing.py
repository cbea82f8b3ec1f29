"""Logs without any readable row are reported with a remedy."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from tests.reports import recorded
from tests.reports.replaying.door import candidate

from sluicegate.decisions import schema
from sluicegate_reports.jobs.compare import compare_run
from sluicegate_reports.jobs.follow import findings, follow
from sluicegate_reports.jobs.recommend import RecommendError, recommend
from sluicegate_reports.jobs.replay import ReplayError, replay
from sluicegate_reports.model.runs import DECISIONS, OBSERVATIONS


@pytest.fixture
def later(tmp_path: Path) -> Path:
    """A log that a later release wrote."""
    log = tmp_path / "log"
    path = recorded.write_decisions(log, [recorded.decision(n) for n in range(3)])
    table = pq.read_table(path, schema=schema.SCHEMA)
    metadata = {**(table.schema.metadata or {}), schema.VERSION_KEY: b"99"}
    pq.write_table(pa.Table.from_arrays(table.columns, schema=table.schema.with_metadata(metadata)), path)
    return log


def test_a_log_without_usable_rows_is_reported_with_the_files_left_out(
    spark: SparkSession, tmp_path: Path, later: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICEGATE_LOAD_PLUGINS", "kafka")
    tried = candidate(tmp_path, "max_publish_rate: 1")
    with pytest.raises(ReplayError, match=r"(?s)schema version 99.*not one decision.*give the directory"):
        replay(spark, later, tried)
    with pytest.raises(RecommendError, match=r"(?s)schema version 99.*not one decision.*record a baseline"):
        recommend(later, head_room=2, apply=False)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ReplayError, match="there is not one decision in"):
        replay(spark, tmp_path / "empty", tried)


def test_a_log_without_a_finished_file_is_reported(tmp_path: Path) -> None:
    folder = tmp_path / "log" / "run=r" / "system=kafka"
    folder.mkdir(parents=True)
    (folder / ".part-main-1.jsonl").write_text("")
    notes = findings(follow(tmp_path / "log", tmp_path / "state")).notes
    assert any("1 files are being written" in note for note in notes)
    assert any("no finished file" in note for note in notes)


def test_an_arm_without_any_rows_is_reported(spark: SparkSession, tmp_path: Path) -> None:
    recorded.make_run(tmp_path)
    for path in (tmp_path / OBSERVATIONS).rglob("part-native-*.parquet"):
        path.unlink()
    notes = compare_run(spark, tmp_path).notes
    assert [note for note in notes if "the logs have nothing of it" in note] == [
        "kafka native: it was played, and the logs have nothing of it: is a part of them missing?"
    ]
    assert (tmp_path / DECISIONS).is_dir()
