"""What is measured of a log, against independent queries of the same files by DuckDB."""

import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from sluicegate.cli import main
from sluicegate.decisions.schema import SCHEMA
from sluicegate.decisions.spool import Spool, encode
from sluicegate_reports.jobs import recommend
from sluicegate_reports.recommending import baseline
from sluicegate_reports.recommending.baseline import Baseline
from sluicegate_reports.transforms import summing

START = datetime(2026, 11, 29, 23, 59, 30, tzinfo=UTC)
BASE = {"run": "r", "system": "kafka", "door": "proxy", "factor": 1.0, "delay": 0, "policy_version": 1}
TOPIC = "system, gateway, namespace, topic"
LOG = "read_parquet('{}/*/*/*.parquet', hive_partitioning = false)"


def shares(name: str, prefix: str) -> str:
    """The percentiles of a column, and its peak."""
    quantiles = {"p50": "0.5", "p95": "0.95", "p99": "0.99"}
    columns = [f"quantile_disc({name}, {share}) AS {prefix}{label}" for label, share in quantiles.items()]
    return ", ".join([*columns, f"max({name}) AS {prefix}peak"])


RATES = f"""
WITH seconds AS (
    SELECT {{keys}}, operation, date_trunc('second', time) AS second,
        CAST(sum(messages) AS BIGINT) AS messages, CAST(sum(bytes) AS BIGINT) AS bytes
    FROM {LOG} WHERE operation IN ('publish', 'dispatch') AND action IN ('allow', 'rewrite', 'reject', 'drop')
    GROUP BY ALL
)
SELECT {{keys}}, operation, count(*) AS seconds,
    {shares("messages", "messages_")}, {shares("bytes", "bytes_")}
FROM seconds GROUP BY ALL
"""
SIZES = f"""
SELECT {TOPIC}, count(*) AS times, {shares("size", "")} FROM (
    SELECT *, CAST(ceil(bytes / messages) AS BIGINT) AS size FROM {LOG}
    WHERE operation = 'publish' AND "window" = 0 AND messages > 0 AND action = 'allow'
) GROUP BY ALL
"""
COUNTS = f"""
WITH told AS (
    SELECT {TOPIC}, subscription, client, operation IN ('publish', 'attach_producer') AS produces,
        date_trunc('minute', time) AS minute
    FROM {LOG} WHERE client IS NOT NULL AND "window" = 0 AND action = 'allow'
        AND operation IN ('publish', 'dispatch', 'attach_producer', 'attach_consumer')
), minutes AS (
    SELECT {TOPIC}, minute, count(DISTINCT client) FILTER (produces) AS producers,
        count(DISTINCT (client, subscription)) FILTER (NOT produces) AS consumers
    FROM told GROUP BY ALL
), of_one AS (
    SELECT {TOPIC}, subscription, minute, count(DISTINCT client) AS clients
    FROM told WHERE NOT produces AND subscription IS NOT NULL GROUP BY ALL
), of_all AS (
    SELECT {TOPIC}, count(DISTINCT subscription) AS subscriptions, max(clients) AS subscription_consumers
    FROM of_one GROUP BY ALL
)
SELECT {TOPIC}, max(producers) AS producers, max(consumers) AS consumers,
    coalesce(max(subscriptions), 0) AS subscriptions,
    coalesce(max(subscription_consumers), 0) AS subscription_consumers
FROM minutes LEFT JOIN of_all USING ({TOPIC}) GROUP BY ALL
"""


def random_rows(chosen: random.Random, start: datetime, count: int) -> Iterator[dict[str, Any]]:
    for _ in range(count):
        window = chosen.choice([0, 0, 0, 100])
        yield BASE | {
            "time": start + timedelta(microseconds=chosen.randrange(90_000_000)),
            "gateway": chosen.choice(["main", "other"]),
            "namespace": "orders",
            "topic": f"orders.{chosen.randrange(4)}",
            "principal": chosen.choice([None, "User:a", "User:b"]),
            "client": chosen.choice([None, *(f"c{n}" for n in range(9))]) if not window else None,
            "subscription": chosen.choice([None, "s1", "s2", "s3"]),
            "operation": chosen.choice(
                ["publish", "dispatch", "attach_producer", "attach_consumer", "connect"]
            ),
            "action": chosen.choice(["allow", "allow", "rewrite", "reject", "drop", "delay", "would_reject"]),
            "bytes": chosen.randrange(10**4),
            "messages": chosen.randrange(9),
            "decisions": 1,
            "window": window,
        }


def put(log: Path, rows: Iterator[dict[str, Any]], name: str) -> None:
    folder = log / "run=r" / "system=kafka"
    folder.mkdir(parents=True, exist_ok=True)
    table = pa.Table.from_pylist(list(rows), SCHEMA).sort_by("time")
    pq.write_table(table, folder / f"part-{name}.parquet", row_group_size=500)


def asked(log: Path, query: str, keys: str = TOPIC) -> list[dict[str, Any]]:
    answer = duckdb.execute(query.format(log, keys=keys))
    names = [column[0] for column in answer.description or ()]
    return [dict(zip(names, row, strict=True)) for row in answer.fetchall()]


def same(answers: list[Any], expected: list[dict[str, Any]]) -> bool:
    def ordered(rows: list[Any]) -> list[str]:
        return sorted(str(sorted(row.items())) for row in rows)

    return len(expected) > 0 and ordered(answers) == ordered(expected)


@pytest.mark.parametrize(("piece", "waiting"), [(summing._PIECE_ROWS, baseline._WAITING), (100, 1)])
def test_each_figure_is_that_of_an_independent_query(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece: int, waiting: int
) -> None:
    monkeypatch.setattr(summing, "_PIECE_ROWS", piece)
    monkeypatch.setattr(baseline, "_WAITING", waiting)
    chosen = random.Random(7)
    # Files overlap, are not in the order of their names, and the log is of two days.
    for number in range(5):
        start = START + timedelta(seconds=60 * (5 - number))
        put(tmp_path, random_rows(chosen, start, 3_000), f"main-{number}")
    measured, left_out = recommend.measure(tmp_path)
    assert (measured.rows, left_out) == (15_000, [])
    assert same(measured.of_topics(), asked(tmp_path, RATES))
    assert same(measured.of_principals(99), asked(tmp_path, RATES, f"{TOPIC}, principal"))
    assert same(measured.sizes(), asked(tmp_path, SIZES))
    assert same(measured.counts(), asked(tmp_path, COUNTS))


def test_what_is_complete_is_no_longer_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baseline, "_WAITING", 1)
    rows = list(random_rows(random.Random(1), START, 2_000))
    table = pa.Table.from_pylist(rows, SCHEMA).select(baseline.COLUMNS)
    measured = Baseline()
    measured.add(table)
    before = len(measured._seconds), len(measured._clients)
    measured.complete(int(START.timestamp()) + 60)
    after = len(measured._seconds), len(measured._clients)
    assert all(0 < few < many for few, many in zip(after, before, strict=True))


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """Writes a spool with so many publishes in one second, of 100 bytes each, and leaves it open."""
    folder = tmp_path / "run=r" / "system=kafka"
    constants = {"run": "r", "system": "kafka", "door": "proxy", "gateway": "main"}
    opened: list[Spool] = []

    def write(count: int) -> Path:
        spool = Spool(folder, "part-live", constants)
        opened.append(spool)
        row = {"namespace": "n", "topic": "live", "operation": "publish", "action": "allow", "factor": 1.0}
        row |= {"delay": 0, "bytes": 100, "messages": 1, "policy_version": 1, "decisions": 1, "window": 0}
        start_us = int(START.timestamp()) * 1_000_000
        spool.write(encode({"time": list(range(start_us, start_us + count)), **row}))
        spool.write(encode({"time": [0], **row})[:-7])  # as a kill in the middle leaves it
        return tmp_path

    yield write
    for spool in opened:
        spool.close()


def test_what_a_gateway_is_still_writing_counts(live: Callable[[int], Path]) -> None:
    log = live(30)
    recommendation = recommend.recommend(log, head_room=2)
    (advice,) = recommendation.plan.advice
    assert advice.topic == "live"
    assert {limit.policy: limit.value for limit in advice.limits}["max_publish_rate"] == 60
    assert recommendation.plan.source == f"{log} (30 rows)"


def test_a_file_that_is_damaged_inside_ends_the_command(tmp_path: Path) -> None:
    put(tmp_path, random_rows(random.Random(2), START, 2_000), "main-1")
    (path,) = tmp_path.rglob("part-*.parquet")
    content = bytearray(path.read_bytes())
    content[4:2_000] = b"\xff" * 1_996
    path.write_bytes(content)
    result = CliRunner().invoke(main, ["report", "recommend", str(tmp_path)])
    assert result.exit_code == 2
    assert "part-main-1.parquet is damaged or cut short" in result.stderr


def test_the_command_needs_no_spark(tmp_path: Path) -> None:
    put(tmp_path, random_rows(random.Random(3), START, 300), "main-1")
    program = "import sys\nsys.modules['pyspark'] = None\nfrom sluicegate.cli import main\nmain()"
    done = subprocess.run(
        [sys.executable, "-c", program, "report", "recommend", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert '- name: "orders.1"' in done.stdout or '- name: "orders.*"' in done.stdout
