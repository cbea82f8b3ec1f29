"""A log compacted by day: every row is there once, however often it runs and wherever it is interrupted."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from sluicegate.cli import main
from sluicegate.decisions.schema import SCHEMA
from sluicegate_reports.model.locations import Location
from sluicegate_reports.spark import compaction as compacting

_NIGHT = datetime(2026, 11, 22, tzinfo=UTC)
_LATER = date(2026, 11, 30)


def put(log: Path, name: str, minutes: list[int], run: str = "r") -> Path:
    """A finished file with a row at each of these minutes after midnight."""
    folder = log / f"run={run}" / "system=kafka"
    folder.mkdir(parents=True, exist_ok=True)
    base = {"run": run, "system": "kafka", "door": "proxy", "gateway": "main", "namespace": "n", "topic": "t"}
    base |= {"operation": "publish", "action": "allow"}
    numbers = dict.fromkeys(("delay", "bytes", "messages", "policy_version", "decisions", "window"), 1)
    rows = [{**base, **numbers, "factor": 1.0, "time": _NIGHT + timedelta(minutes=m)} for m in minutes]
    file = folder / f"part-{name}.parquet"
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), file)
    return file


def minutes_in(folder: Path) -> dict[str, list[int]]:
    """What lies in each day's folder: minutes after midnight."""
    minutes: dict[str, list[int]] = {}
    for file in sorted(folder.rglob("part-*.parquet")):
        times = pq.ParquetFile(file).read().column("time").to_pylist()
        minutes.setdefault(file.parent.name, []).extend(
            int((time - _NIGHT).total_seconds()) // 60 for time in times
        )
    return minutes


def test_rows_are_compacted_by_day_and_taken_once(tmp_path: Path) -> None:
    log, copy = tmp_path / "log", tmp_path / "copy"
    put(log, "2", [1, 2])
    put(log, "1", [-2, -1, 0])  # over midnight
    today = put(log, "3", [2000])
    done = compacting.compact(log, copy, _NIGHT.date() + timedelta(days=1))
    assert (done.rows, len(done.sources), len(done.written)) == (5, 2, 2)
    assert minutes_in(copy) == {"date=2026-11-21": [-2, -1], "date=2026-11-22": [0, 1, 2]}
    assert compacting.compact(log, copy, _NIGHT.date() + timedelta(days=1)).written == []
    later = compacting.compact(log, copy, _LATER)
    assert (later.rows, [each.name for each in later.sources]) == (1, [today.name])
    columns = pq.ParquetFile(copy / later.written[0].relative_to(Location(str(copy)))).schema_arrow
    assert columns.equals(SCHEMA, check_metadata=False)


def test_an_interrupted_call_is_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, copy = tmp_path / "log", tmp_path / "copy"
    for number in range(4):
        put(log, str(number), [number - 2], run=f"r{number % 2}")
    rename = Location.written
    calls = 0

    def die(self: Location, *, private: bool) -> object:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise KeyboardInterrupt
        return rename(self, private=private)

    monkeypatch.setattr(Location, "written", die)
    with pytest.raises(KeyboardInterrupt):
        compacting.compact(log, copy, _LATER, file_rows=1)
    monkeypatch.setattr(Location, "written", rename)
    compacting.compact(log, copy, _LATER, file_rows=1)
    compacted = sorted(row for rows in minutes_in(copy).values() for row in rows)
    assert compacted == [-2, -1, 0, 1]
    assert all(not file.name.startswith(".") for file in copy.rglob("*.parquet"))


def test_damaged_files_are_left_out_and_named(tmp_path: Path) -> None:
    put(tmp_path / "log", "1", [1])
    torn = put(tmp_path / "log", "2", [2])
    torn.write_bytes(torn.read_bytes()[:-9])
    result = CliRunner().invoke(
        main, ["report", "compact", str(tmp_path / "log"), "--to", str(tmp_path / "to")]
    )
    assert result.exit_code == 0
    assert "part-2.parquet is left out: it is damaged or cut short" in result.stderr
    assert result.stdout == "1 rows of 1 files are now in 1 files\n"
    within = CliRunner().invoke(main, ["report", "compact", str(tmp_path), "--to", str(tmp_path / "to")])
    assert (within.exit_code, "rows would be read twice" in within.stderr) == (2, True)
