"""Usage by day, topic and principal, against an independent query of the same files by DuckDB."""

import csv
import json
import math
import random
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from tests.output import HOSTILE

from sluicegate.cli import main
from sluicegate.decisions.schema import SCHEMA
from sluicegate.model import visible
from sluicegate_reports.jobs.usage import KEYS, SUMMED, USAGE
from sluicegate_reports.render.delimited import safe_cell
from sluicegate_reports.spark import log_files
from sluicegate_reports.transforms import summing

DOCUMENT = (Path(__file__).parents[4] / "docs" / "reports.md").read_text()
START = datetime(2026, 11, 29, 22, tzinfo=UTC)
BASE = {
    "run": "r",
    "system": "kafka",
    "door": "proxy",
    "gateway": "main",
    "principal": "User:a",
    "namespace": "orders",
    "topic": "orders.eu",
    "operation": "publish",
    "action": "allow",
    "factor": 1.0,
    "delay": 0,
    "bytes": 100,
    "messages": 1,
    "policy_version": 1,
    "decisions": 1,
    "window": 0,
}
INDEPENDENT = """
SELECT CAST(time AT TIME ZONE 'UTC' AS DATE) AS day, system, door, gateway, namespace, topic, principal,
    coalesce(sum(messages) FILTER (operation = 'publish' AND action IN ('allow', 'rewrite')), 0),
    coalesce(sum(bytes) FILTER (operation = 'publish' AND action IN ('allow', 'rewrite')), 0),
    coalesce(sum(messages) FILTER (operation = 'dispatch' AND action IN ('allow', 'rewrite')), 0),
    coalesce(sum(bytes) FILTER (operation = 'dispatch' AND action IN ('allow', 'rewrite')), 0),
    coalesce(sum(decisions) FILTER (action IN ('reject', 'drop')), 0),
    coalesce(sum(messages) FILTER (action IN ('reject', 'drop')), 0),
    coalesce(sum(bytes) FILTER (action IN ('reject', 'drop')), 0),
    coalesce(sum(decisions) FILTER (action IN ('would_reject', 'would_drop')), 0),
    coalesce(sum(decisions) FILTER (action = 'delay'), 0),
    coalesce(sum(delay) FILTER (action = 'delay'), 0)
FROM read_parquet('{}/*/*/*.parquet', hive_partitioning = false) GROUP BY ALL
"""


HOLDS = """
WITH counted AS (
    SELECT strftime(time AT TIME ZONE 'UTC', '%Y-%m') AS month, system, gateway, topic, policy, delay,
        sum(decisions) AS held
    FROM read_parquet('{}/*/*/*.parquet', hive_partitioning = false) WHERE action = 'delay' GROUP BY ALL
), upto AS (
    SELECT *, sum(held) OVER (PARTITION BY month, system, gateway, topic, policy ORDER BY delay) AS upto
    FROM counted
)
SELECT month, system, gateway, topic, policy, CAST(sum(held) AS BIGINT), list((delay, upto) ORDER BY delay)
FROM upto GROUP BY ALL
"""


def put(log: Path, rows: list[dict[str, Any]], number: int = 1, **columns: object) -> Path:
    """A finished file of the log."""
    folder = log / "run=r" / "system=kafka"
    folder.mkdir(parents=True, exist_ok=True)
    table = pa.Table.from_pylist([{**BASE, "time": START, **columns, **row} for row in rows], schema=SCHEMA)
    path = folder / f"part-main-{number:05}.parquet"
    pq.write_table(table, path, row_group_size=500)
    return path


def usage(log: Path, *options: str) -> Result:
    return CliRunner().invoke(main, ["report", "usage", str(log), *options], catch_exceptions=False)


def rows(log: Path, *options: str) -> list[tuple[Any, ...]]:
    """What `--parquet` writes."""
    target = log.parent / "usage.parquet"
    result = usage(log, "--parquet", str(target), *options)
    assert result.exit_code == 0, result.output
    table = pq.read_table(target)
    assert table.schema.equals(USAGE)
    return [tuple(row.values()) for row in table.to_pylist()]


def random_rows(seed: int, count: int) -> Iterator[dict[str, Any]]:
    chosen = random.Random(seed)
    for _ in range(count):
        action = chosen.choice(
            [
                "allow",
                "allow",
                "rewrite",
                "reject",
                "drop",
                "delay",
                "would_reject",
                "would_delay",
                "would_drop",
            ]
        )
        yield {
            "time": START + timedelta(microseconds=chosen.randrange(3 * 86_400_000_000)),
            "topic": f"orders.{chosen.randrange(5)}",
            "namespace": chosen.choice(["orders", "invoices"]),
            "principal": chosen.choice([None, "User:a", "User:b"]),
            "gateway": chosen.choice(["main", "other"]),
            "operation": chosen.choice(["publish", "dispatch", "attach_producer"]),
            "action": action,
            "policy": None if action == "allow" else "max_publish_rate",
            "delay": chosen.randrange(10**10),
            "bytes": chosen.randrange(10**6),
            "messages": chosen.randrange(1_000),
            "decisions": chosen.randrange(1, 50),
        }


@pytest.mark.parametrize("piece", [1, summing._PIECE_ROWS])
def test_every_sum_is_what_duckdb_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece: int) -> None:
    monkeypatch.setattr(summing, "_PIECE_ROWS", piece)
    monkeypatch.setattr(log_files, "_BATCH_ROWS", 333)
    log = tmp_path / "log"
    for number in range(4):
        put(log, list(random_rows(number, 1_500)), number)
    expected = duckdb.execute(INDEPENDENT.format(log)).fetchall()
    expected = [row for row in expected if any(row[-len(SUMMED) :])]
    assert len(expected) > 200
    assert sorted(rows(log), key=str) == sorted(expected, key=str)


def test_the_documented_columns_and_query_are_those_of_the_file(tmp_path: Path) -> None:
    section = DOCUMENT.partition("## `sluicegate report usage LOG`")[2].partition("\n## ")[0]
    for column in USAGE:
        assert re.search(rf"^\|.*`{column.name}`.*\| {re.escape(str(column.type))} \|", section, re.MULTILINE)
    put(tmp_path / "log", [{"bytes": 10**9}, {"namespace": "other"}, {"time": START + timedelta(days=2)}])
    rows(tmp_path / "log")
    query = section.partition("```sql\n")[2].partition("```")[0]
    answers = duckdb.execute(query.replace("'usage.parquet'", f"'{tmp_path}/usage.parquet'")).fetchall()
    november, december = datetime(2026, 11, 1), datetime(2026, 12, 1)
    assert [(name, month.timetuple()[:3], messages, size) for name, month, messages, size in answers] == [
        ("orders", november.timetuple()[:3], 1, 1.0),
        ("other", november.timetuple()[:3], 1, 0.0),
        ("orders", december.timetuple()[:3], 1, 0.0),
    ]


def test_days_are_those_of_utc_and_can_be_chosen(tmp_path: Path) -> None:
    log = tmp_path / "log"
    put(log, [{"time": START + timedelta(hours=hours)} for hours in (0, 2, 26)])
    assert [row[0] for row in rows(log)] == [date(2026, 11, 29), date(2026, 11, 30), date(2026, 12, 1)]
    assert [row[0] for row in rows(log, "--since", "2026-11-30", "--before", "2026-12-01")] == [
        date(2026, 11, 30)
    ]
    assert rows(log, "--since", "2027-01-01") == []


def test_the_report_names_who_was_refused_most_and_what_has_no_principal(tmp_path: Path) -> None:
    log = tmp_path / "log"
    refused = [{"action": "reject", "policy": "max_publish_rate", "principal": "User:noisy"}] * 3
    window = {"window": 100, "principal": None, "messages": 6, "decisions": 6}
    put(log, [*refused, {"action": "delay", "policy": "max_publish_rate", "delay": 1_500_000_000}, window])
    result = usage(log, "--format", "markdown")
    assert result.exit_code == 0
    text = result.stdout
    assert "6 messages published, 0 delivered, 3 operations refused, 1 held." in text
    assert "100.0 % of the messages have no principal" in text
    violators = text.partition("Who was refused or held most")[2]
    assert violators.index("User:noisy") < violators.index("User:a")
    assert "1.5" in violators


def test_percentiles_of_holds_are_what_duckdb_finds_rounded_up(tmp_path: Path) -> None:
    log, target = tmp_path / "log", tmp_path / "usage.json"
    for number in range(3):
        put(log, list(random_rows(number, 4_000)), number)
    put(log, [{"action": "delay", "policy": "max_publish_rate", "delay": 0, "topic": "at once"}], 9)
    assert usage(log, "--out", str(target)).exit_code == 0
    [table] = [
        table
        for section in json.loads(target.read_text())["sections"]
        for table in section["tables"]
        if table["name"] == "service_level"
    ]
    holds = {tuple(row[:5]): row[7:] for row in table["rows"]}
    expected = duckdb.execute(HOLDS.format(log)).fetchall()
    assert len(holds) == len(expected) > 20
    for *key, held, delays in expected:
        exact = [next(ns for ns, upto in delays if upto >= share * held) for share in (0.5, 0.99)]
        rounded = [math.ceil(ns / (scale := 10 ** max(0, len(str(ns)) - 2))) * scale for ns in exact]
        assert holds[tuple(key)] == [held, *(ns / 1e6 for ns in rounded)]


def test_csv_is_safe_for_spreadsheets_and_terminals(tmp_path: Path) -> None:
    log, target = tmp_path / "log", tmp_path / "usage.csv"
    hostile = HOSTILE.replace("\ud800", "")
    names = ["=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)", " =1", 'a"b,c', hostile, "plain"]
    put(log, [{"principal": name, "topic": name} for name in names])
    assert usage(log, "--csv", str(target)).exit_code == 0
    text = target.read_text()
    assert visible(text, keep="\n") == text
    lines = list(csv.DictReader(text.splitlines()))
    assert list(lines[0]) == ["day", *KEYS, *SUMMED]
    assert (
        {row["principal"] for row in lines} == {row["topic"] for row in lines} == set(map(safe_cell, names))
    )
    assert {row["published_messages"] for row in lines} == {"1"}
    for row in lines:
        assert not row["topic"].lstrip().startswith(("=", "+", "-", "@"))
    assert "'=cmd|' /C calc'!A0" in text


def test_files_that_are_being_written_are_counted_in_a_note(tmp_path: Path) -> None:
    log = tmp_path / "log"
    (put(log, [{}]).parent / ".part-main-00003.jsonl").write_text("")
    result = usage(log)
    assert "1 files are being written, and count when they are finished" in " ".join(result.stdout.split())


def test_a_damaged_file_is_named_and_nothing_is_written(tmp_path: Path) -> None:
    """What is charged for must not lack a part."""
    log, target = tmp_path / "log", tmp_path / "usage.csv"
    put(log, [{}])
    damaged = put(log, [{}] * 5_000, 2)
    content = bytearray(damaged.read_bytes())
    for spoiled in (
        content[:-20],
        content[:100] + bytes(len(content) // 2) + content[100 + len(content) // 2 :],
    ):
        damaged.write_bytes(spoiled)
        result = usage(log, "--csv", str(target))
        assert result.exit_code == 2
        assert "part-main-00002.parquet" in result.stderr
        assert not target.exists()


def test_a_log_without_finished_files_is_refused(tmp_path: Path) -> None:
    result = usage(tmp_path)
    assert result.exit_code == 2
    assert "there is no finished file of a decision log in" in result.stderr
    target = tmp_path / "usage.csv"
    assert usage(tmp_path, "--csv", str(target)).exit_code == 2
    assert not target.exists()


def test_results_can_be_rendered_again(tmp_path: Path) -> None:
    log, target = tmp_path / "log", tmp_path / "usage.json"
    put(log, list(random_rows(1, 200)))
    assert usage(log, "--out", str(target)).exit_code == 0
    again = CliRunner().invoke(main, ["report", "render", str(target)], catch_exceptions=False)
    assert again.exit_code == 0
    assert "Who was refused or held most" in again.stdout
