"""The replay job on Spark, from real log files in any order."""

import random
from pathlib import Path
from typing import Any, Literal

import pytest
from pyspark.sql import SparkSession
from tests.reports import recorded
from tests.reports.replaying.door import START_US, candidate

from sluicegate.decisions import DecisionLog
from sluicegate.model import Operation, OperationKind
from sluicegate.testing import ManualClock
from sluicegate_reports.jobs.replay import findings, replay
from sluicegate_reports.model.listing import with_files_of
from sluicegate_reports.replaying.candidate import Candidate, Engine

POLICIES = """
max_publish_rate: 40
on_limit: {max_publish_rate: reject}
"""
OPERATIONS = 3_000
S = 1_000_000


@pytest.fixture
def tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Candidate:
    monkeypatch.setenv("SLUICEGATE_LOAD_PLUGINS", "kafka")
    return candidate(tmp_path, POLICIES)


def record(directory: Path, tried: Candidate, detail: Literal["full", "summary"]) -> dict[str, int]:
    """Let the engine decide, its real log write, and count what it refused on each topic."""
    random_ = random.Random(1)
    clock = ManualClock(START_US * 1000)
    log = DecisionLog(
        directory,
        "kafka",
        "main",
        "full" if detail == "full" else "summary",
        wall_clock=clock,
        monotonic=clock,
    )
    engine = Engine(tried.entries[0], ())
    engine._compiler._sink = log
    refused: dict[str, int] = {}
    for _ in range(OPERATIONS):
        clock.advance(ns=1000 * random_.randrange(20_000))
        topic, client = random_.choice(("orders", "bills")), random_.choice(("anna", "ben"))
        op = Operation(OperationKind.PUBLISH, topic, client, client, client)
        op.messages, op.bytes, op.largest = 1, 100, 100
        if engine.gate(topic, "default", client, clock()).publish(op, clock()) is not None:
            refused[topic] = refused.get(topic, 0) + 1
    assert log.close()
    return refused


def test_a_full_log_under_its_own_policies_changes_nothing(
    spark: SparkSession, tmp_path: Path, tried: Candidate
) -> None:
    refused = record(tmp_path / "log", tried, "full")
    rows = replay(spark, tmp_path / "log", tried).frame.collect()
    again = {topic: sum(row["refused"] for row in rows if row["topic"] == topic) for topic in refused}
    assert again == refused
    assert sum(refused.values()) > 100
    assert sum(row["operations"] for row in rows) == OPERATIONS
    assert sum(row["newly_refused"] + row["no_longer_refused"] for row in rows) == 0


def test_the_bounds_of_a_summary_hold_what_was_refused(
    spark: SparkSession, tmp_path: Path, tried: Candidate
) -> None:
    refused = record(tmp_path / "log", tried, "summary")
    results = findings(replay(spark, tmp_path / "log", tried))
    by_topic = results.tables()["refused"]
    place = {name: by_topic.columns.index(name) for name in ("topic", "at least", "at most")}
    for row in by_topic.rows:
        low, high = (row[place[name]] for name in ("at least", "at most"))
        assert isinstance(low, int)
        assert isinstance(high, int)
        assert low <= refused[str(row[place["topic"]])] <= high
        assert high - low < OPERATIONS / 2
    assert any("windows of 100 ms" in note for note in results.notes)


def test_attachments_and_delays_are_reported_by_topic_and_principal(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICEGATE_LOAD_PLUGINS", "kafka")
    limits = "connection_rate_limit: 2\nfixed_delivery_delay: 1500ms\nmax_delivery_delay: 8s\n"
    attach: dict[str, Any] = {"operation": "attach_producer", "messages": 0, "bytes": 0}
    rows = [recorded.decision(n, principal=f"User:{n}", **attach) for n in range(4)]
    rows += [recorded.decision(S + n) for n in range(3)]
    asked: dict[str, Any] = {"policy": "max_delivery_delay", "current": 9000.0, "limit": 5000.0}
    rows += [recorded.decision(2 * S, "reject", **asked)]
    recorded.write_decisions(tmp_path / "log", rows)
    results = findings(replay(spark, tmp_path / "log", candidate(tmp_path, limits)))
    tables = results.tables()
    by_principal = {row[3]: row for row in tables["by_principal"].rows}
    assert set(by_principal) == {"User:2", "User:3"}
    assert {row[4] for row in by_principal.values()} == {"connection_rate_limit"}
    assert [by_principal[who][10] for who in ("User:2", "User:3")] == [
        pytest.approx(500, abs=1),
        pytest.approx(1000, abs=1),
    ]
    assert tables["delivered_later"].rows == (("kafka", "proxy main", recorded.TOPIC, "User:a", 4, 1500.0),)
    # Refused then for what it asked; a fixed delay takes the place of that.
    assert [row[4:6] for row in tables["asked_delays"].rows] == [(1, 0)]
    assert {row[0]: row[1] for row in tables["scope"].rows} == {
        "connection_rate_limit": "exact",
        "fixed_delivery_delay": "in part",
        "max_delivery_delay": "in part",
    }
    assert any(note.startswith("fixed_delivery_delay: in part") for note in results.notes)


def test_a_limit_is_judged_over_the_logs_of_all_gateways(
    spark: SparkSession, tmp_path: Path, tried: Candidate
) -> None:
    """Each admitted no more than the limit of 40, both together twice that."""
    logs = [tmp_path / host for host in ("one", "two")]
    for number, log in enumerate(logs):
        rows = [
            recorded.decision(20_000 * each + number, topic="orders", host=log.name, messages=1)
            for each in range(50)
        ]
        recorded.write_decisions(log, rows)
    alone = replay(spark, logs[0], tried).frame.collect()
    assert sum(row["newly_refused"] for row in alone) == 0
    both = replay(spark, with_files_of(logs[0], logs[1:]), tried).frame.collect()
    assert sum(row["newly_refused"] for row in both) == 21
