"""Results as Parquet files, Delta tables and JSON, as other programs read them."""

import json
import re
from pathlib import Path

import duckdb
import jsonschema
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable
from tests.house.test_documents import ROOT
from tests.reports.model.example import example

from sluicegate_reports.commands.group import report
from sluicegate_reports.model.json_schema import json_schema
from sluicegate_reports.model.results import to_json
from sluicegate_reports.render.parquet import HEADING

EXAMPLE = example()
_SECTION = (ROOT / "docs/reports.md").read_text().split("## Results for programs")[1].split("\n## ")[0]


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which `report render --tables tables` was called."""
    monkeypatch.chdir(tmp_path)
    Path("results.json").write_bytes(to_json(EXAMPLE))
    done = CliRunner().invoke(report, ["render", "results.json", "--out", "r.md", "--tables", "tables"])
    assert done.exit_code == 0, done.output
    assert "tables written to tables: cells, " in done.output
    return tmp_path


def test_each_table_of_the_report_is_a_file(written: Path) -> None:
    tables = EXAMPLE.tables()
    assert len(list((written / "tables").iterdir())) == len(tables) + 1
    for name, table in tables.items():
        written_table = pq.read_table(written / "tables" / f"{name.lower().replace(' ', '_')}.parquet")
        assert [field.metadata[HEADING].decode() for field in written_table.schema] == list(table.columns)
        for column, values in zip(written_table.columns, zip(*table.rows, strict=True), strict=True):
            expected = map(str, values) if pa.types.is_string(column.type) else values
            assert column.to_pylist() == [*expected]


def test_the_documented_query_and_the_documented_frame_read_them(
    written: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    query = re.search(r"```sql\n(.*?)```", _SECTION, re.DOTALL)
    script = re.search(r"```python\n(.*?)```", _SECTION, re.DOTALL)
    assert query
    assert script
    kept = {(c.policy, c.system, c.door) for c in EXAMPLE.matrix if c.verdict in ("off", "disputed")}
    answer = duckdb.sql(query[1])
    assert answer is not None
    assert {row[:3] for row in answer.fetchall()} == kept
    exec(script[1], {"pd": pd})
    assert EXAMPLE.matrix[0].policy in capsys.readouterr().out


def test_delta_tables_keep_earlier_versions(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_bytes(to_json(EXAMPLE))
    place = tmp_path / "tables"
    for _ in range(2):
        arguments = ["render", str(tmp_path / "results.json"), "--out", str(tmp_path / "r.md")]
        done = CliRunner().invoke(report, [*arguments, "--tables", str(place), "--delta"])
        assert done.exit_code == 0, done.output
    table = DeltaTable(place / "cells")
    assert (table.version(), len(table.to_pyarrow_table())) == (1, len(EXAMPLE.matrix))


def test_delta_without_a_directory_is_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_bytes(to_json(EXAMPLE))
    done = CliRunner().invoke(report, ["render", str(tmp_path / "results.json"), "--delta"])
    assert done.exit_code == 2
    assert "give a directory with --tables" in done.output


def test_the_published_schema_is_that_of_the_results() -> None:
    published = json.loads((ROOT / "docs/report.schema.json").read_text())
    assert published == json_schema(), "sluicegate report schema > docs/report.schema.json"
    jsonschema.validate(json.loads(to_json(EXAMPLE)), published)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"run": {}, "matrix": [{"policy": 1}]}, published)


def test_each_kind_of_cause_is_documented() -> None:
    from sluicegate_reports.jobs.causes import CLOCK_STEPPED, TOO_SLOW
    from sluicegate_reports.transforms import causes

    kinds = [value for value in vars(causes).values() if isinstance(value, str) and "_" in value]
    kinds = [kind for kind in kinds if re.fullmatch("[a-z_]+", kind)]
    assert len(kinds) == 6
    assert [kind for kind in (CLOCK_STEPPED, TOO_SLOW, *kinds) if f"| `{kind}` |" not in _SECTION] == []
