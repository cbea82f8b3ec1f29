"""Files of observations: complete or absent, with the version and every column."""

from datetime import UTC, datetime
from pathlib import Path
from threading import Thread

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sluicegate_reports.model import observations
from sluicegate_reports.model.observations import COLUMNS, SCHEMA, Event, Observation, ObservationLog, Role


def sent(sequence: int, *, client: str = "p1") -> Observation:
    return Observation(1_000_000 + sequence, client, Role.PRODUCER, "orders", Event.SENT, sequence, bytes=100)


def log(directory: Path) -> ObservationLog:
    return ObservationLog(directory, "run-1", "kafka", "proxy", "rate")


def files(directory: Path) -> list[Path]:
    return sorted(path for path in directory.rglob("*") if path.is_file())


def test_a_row_has_every_column(tmp_path: Path) -> None:
    row = Observation(
        1_500_000,
        "c1",
        Role.CONSUMER,
        "orders",
        Event.RECEIVED,
        7,
        messages=1,
        bytes=100,
        subscription="s1",
        code="0",
        text="fine",
        latency_ns=9,
        published=1_000_000,
        producer="p1",
        delay_ms=250,
        acknowledges=True,
    )
    with log(tmp_path) as writer:
        writer.add(row)
    (file,) = files(tmp_path)
    assert file.parent == tmp_path / "run=run-1" / "system=kafka"
    # The path's own run and system are not read: they are columns.
    assert pq.ParquetFile(file).read().to_pylist() == [
        {
            "time": datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC),
            "run": "run-1",
            "system": "kafka",
            "door": "proxy",
            "scenario": "rate",
            "client": "c1",
            "role": "consumer",
            "topic": "orders",
            "subscription": "s1",
            "event": "received",
            "sequence": 7,
            "messages": 1,
            "bytes": 100,
            "code": "0",
            "text": "fine",
            "latency_ns": 9,
            "published": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
            "producer": "p1",
            "delay_ms": 250,
            "acknowledges": True,
        }
    ]


def test_the_schema_holds_version_meaning_and_unit(tmp_path: Path) -> None:
    with log(tmp_path) as writer:
        writer.add(sent(0))
    schema = pq.read_schema(files(tmp_path)[0])
    assert schema.metadata[observations.VERSION_KEY] == b"2"
    assert schema.names == [column.name for column in COLUMNS] == SCHEMA.names
    assert schema.field("latency_ns").metadata[b"unit"] == b"ns"
    assert all(
        schema.field(column.name).metadata[b"meaning"].decode() == column.meaning for column in COLUMNS
    )


def test_a_file_appears_whole_and_begins_anew_when_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observations, "_BATCH_ROWS", 2)
    monkeypatch.setattr(observations, "_FILE_ROWS", 4)
    with log(tmp_path) as writer:
        for sequence in range(3):
            writer.add(sent(sequence))
        writer.flush()
        assert [path.name.endswith(".parquet.inprogress") for path in files(tmp_path)] == [True]
        assert files(tmp_path)[0].name.startswith(".")
        for sequence in range(3, 7):
            writer.add(sent(sequence))
    assert writer.rows == 7
    tables = [pq.ParquetFile(path).read() for path in files(tmp_path)]
    assert [len(table) for table in tables] == [4, 3]
    assert pa.concat_tables(tables)["sequence"].to_pylist() == list(range(7))


def test_no_observations_leave_no_file(tmp_path: Path) -> None:
    with log(tmp_path):
        pass
    assert files(tmp_path) == []


def test_two_logs_of_one_arm_use_different_files(tmp_path: Path) -> None:
    with log(tmp_path) as one, log(tmp_path) as other:
        one.add(sent(0))
        other.add(sent(1))
    assert len(files(tmp_path)) == 2


def test_threads_add_while_another_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observations, "_BATCH_ROWS", 16)
    with log(tmp_path) as writer:

        def produce(client: str) -> None:
            for sequence in range(500):
                writer.add(sent(sequence, client=client))
                if sequence % 50 == 0:
                    writer.flush()

        threads = [Thread(target=produce, args=(f"p{number}",)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    rows = [row for path in files(tmp_path) for row in pq.ParquetFile(path).read().to_pylist()]
    for number in range(4):
        mine = [row["sequence"] for row in rows if row["client"] == f"p{number}"]
        assert mine == list(range(500))


def test_a_row_that_does_not_fit_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(pa.ArrowException), log(tmp_path) as writer:
        writer.add(sent(0)._replace(latency_ns="soon"))  # type: ignore[arg-type]
