"""A compacted log as a Delta table: the table has each row once, whatever call was interrupted."""

import sys
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from deltalake import DeltaTable
from tests.reports.spark.test_compaction import minutes_in, put

from sluicegate.cli import main
from sluicegate.decisions.schema import SCHEMA
from sluicegate_reports import spark
from sluicegate_reports.model.listing import listing
from sluicegate_reports.model.locations import Location
from sluicegate_reports.spark import delta_table


def compact(folder: Path, *options: str) -> Result:
    """Compact `log` of a folder into `copy`."""
    return CliRunner().invoke(
        main, ["report", "compact", str(folder / "log"), "--to", str(folder / "copy"), *options]
    )


def rows_of(copy: Path) -> list[dict[str, object]]:
    """All rows of the table, by time, as a reader of Delta has them."""
    table = pa.table(DeltaTable(copy).to_pyarrow_dataset().to_table())
    return sorted(table.to_pylist(), key=lambda row: str(row["time"]))


def test_a_table_has_the_rows_of_the_copy_by_run_system_and_date(tmp_path: Path) -> None:
    put(tmp_path / "log", "1", [-1, 0])
    put(tmp_path / "log", "2", [1], run="b-2")
    done = compact(tmp_path, "--delta")
    assert done.stdout == (
        "3 rows of 2 files are now in 3 files\nthe Delta table has 3 files more, in version 0\n"
    )
    rows = rows_of(tmp_path / "copy")
    assert [(row["run"], row["system"], str(row["date"])) for row in rows] == [
        ("r", "kafka", "2026-11-21"),
        ("r", "kafka", "2026-11-22"),
        ("b-2", "kafka", "2026-11-22"),
    ]
    assert set(rows[0]) == {*SCHEMA.names, "date"}
    assert DeltaTable(tmp_path / "copy").metadata().partition_columns == ["run", "system", "date"]


def test_later_calls_add_what_is_new_without_being_asked(tmp_path: Path) -> None:
    put(tmp_path / "log", "1", [0])
    assert compact(tmp_path, "--delta").exit_code == 0
    assert "Delta" not in compact(tmp_path).stdout
    put(tmp_path / "log", "2", [1])
    assert "1 files more, in version 1" in compact(tmp_path).stdout
    assert len(rows_of(tmp_path / "copy")) == 2


def test_a_call_completes_the_table_that_an_interrupted_one_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "log", "1", [0])
    with monkeypatch.context() as patched:
        patched.setattr(delta_table, "record", lambda copy: 1 / 0)
        assert isinstance(compact(tmp_path, "--delta").exception, ZeroDivisionError)
    assert minutes_in(tmp_path / "copy") == {"date=2026-11-22": [0]}
    assert compact(tmp_path, "--delta").exit_code == 0
    assert len(rows_of(tmp_path / "copy")) == 1


def test_an_existing_copy_becomes_a_table(tmp_path: Path) -> None:
    put(tmp_path / "log", "1", [-1, 0])
    compact(tmp_path)
    assert not (tmp_path / "copy" / "_delta_log").exists()
    assert "2 files more, in version 0" in compact(tmp_path, "--delta").stdout
    assert len(rows_of(tmp_path / "copy")) == 2


def test_columns_of_a_later_release_are_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "log", "1", [0])
    with monkeypatch.context() as patched:
        fields = [field for field in SCHEMA if field.name != "other_reasons"]
        patched.setattr(delta_table, "SCHEMA", pa.schema(fields))
        compact(tmp_path, "--delta")
    assert "other_reasons" not in rows_of(tmp_path / "copy")[0]
    put(tmp_path / "log", "2", [1])
    compact(tmp_path)
    assert [row["other_reasons"] for row in rows_of(tmp_path / "copy")] == [None, None]


def test_the_tables_own_log_is_no_part_of_the_decision_log(tmp_path: Path) -> None:
    put(tmp_path / "log", "1", [0])
    compact(tmp_path, "--delta")
    names = [file.location.name for file in listing(tmp_path / "copy").files]
    assert [name.startswith("part-") for name in names] == [True]


@pytest.mark.parametrize("is_table", [True, False])
def test_without_the_library_the_remedy_is_printed_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_table: bool
) -> None:
    put(tmp_path / "log", "1", [0])
    if is_table:
        compact(tmp_path, "--delta")
        put(tmp_path / "log", "2", [1])
    before = listing(tmp_path / "copy").files
    monkeypatch.delitem(sys.modules, delta_table.__name__)
    monkeypatch.delattr(spark, "delta_table")
    monkeypatch.setitem(sys.modules, "deltalake", None)
    done = compact(tmp_path, *([] if is_table else ["--delta"]))
    assert (done.exit_code, "pip install 'sluicegate[delta]'" in done.stderr) == (2, True)
    assert listing(tmp_path / "copy").files == before


def test_a_damaged_table_log_is_reported(tmp_path: Path) -> None:
    put(tmp_path / "log", "1", [0])
    compact(tmp_path, "--delta")
    [first] = (tmp_path / "copy" / "_delta_log").glob("*.json")
    first.write_text("{")
    put(tmp_path / "log", "2", [1])
    done = compact(tmp_path)
    assert (
        done.exit_code,
        done.stderr.startswith(f"Error: the Delta table {Location(str(tmp_path / 'copy'))}"),
    ) == (
        2,
        True,
    ), done.stderr
