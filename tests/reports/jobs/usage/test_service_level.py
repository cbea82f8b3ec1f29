"""In how many seconds limits were kept: a log computed by hand, and any log against all its windows."""

import csv
import json
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st
from tests.reports.jobs.usage.test_usage import START, put, usage

from sluicegate.decisions.schema import SCHEMA
from sluicegate_reports.jobs.kept_seconds import KeptSeconds

MIDNIGHT = datetime(2026, 12, 1, tzinfo=UTC)
LIMITED = {"action": "reject", "policy": "max_publish_rate", "limit": 10.0}
PLACE = {"system": "kafka", "gateway": "main", "topic": "t", "operation": "publish", "bytes": 1}


def admitted(**by_second: int) -> list[dict[str, Any]]:
    """So many messages in the seconds `s0`, `s1` and so on."""
    return [
        {"time": START + timedelta(seconds=int(name[1:]) + 0.5), "messages": messages}
        for name, messages in by_second.items()
    ]


def rows_of(log: Path, *options: str) -> list[list[Any]]:
    """The rows of the report's table."""
    target = log.parent / "usage.json"
    assert usage(log, "--out", str(target), *options).exit_code == 0
    tables = [table for section in json.loads(target.read_text())["sections"] for table in section["tables"]]
    return next((table["rows"] for table in tables if table["name"] == "service_level"), [])


def test_seconds_are_kept_as_computed_by_hand(tmp_path: Path) -> None:
    """10/s with a burst of 10: two seconds may have 20 and 10, a third one not 11 more."""
    log, target = tmp_path / "log", tmp_path / "level.csv"
    rows = admitted(s0=20, s1=10, s2=11, s10=5)
    held: dict[str, Any] = {**LIMITED, "action": "delay", "delay": 30_000_000, "time": START}
    put(log, [*rows, {**LIMITED, "time": START}, held, held, {**held, "delay": 70_000_000}])
    place = ["2026-11", "kafka", "main", "orders.eu", "max_publish_rate"]
    assert rows_of(log) == [[*place, 4, 0.75, 3, 30.0, 70.0]]
    assert rows_of(log, "--burst-seconds", "0.5") == [[*place, 4, 0.25, 3, 30.0, 70.0]]
    assert usage(log, "--service-level", str(target), "--tables", str(tmp_path)).exit_code == 0
    (row,) = csv.DictReader(target.read_text().splitlines())
    assert (row["topic"], row["seconds"], row["kept"]) == ("orders.eu", "4", "0.75")
    (stored,) = pq.read_table(tmp_path / "service_level.parquet").to_pylist()
    assert (stored["seconds"], stored["kept_share"], stored["held_p99_ms"]) == (4, 0.75, 70.0)


def test_a_limit_holds_for_the_topic_gateway_and_version_whose_rows_name_it(tmp_path: Path) -> None:
    log = tmp_path / "log"
    rows: list[dict[str, Any]] = [
        {"topic": "never met", "messages": 10**6},
        {"gateway": "other", "messages": 10**6},
        {"policy_version": 2, "messages": 10**6},
        {"operation": "dispatch", "messages": 10**6},
        {"messages": 3},
    ]
    observed: dict[str, Any] = {**LIMITED, "action": "would_reject", "topic": "never met"}
    put(log, [*rows, LIMITED, observed, {**LIMITED, "policy": "max_message_size", "topic": "never met"}])
    assert [row[3:7] for row in rows_of(log)] == [["orders.eu", "max_publish_rate", 1, 1.0]]


def test_each_subscription_has_its_own_limit_and_bytes_are_bytes(tmp_path: Path) -> None:
    log = tmp_path / "log"
    place = {"operation": "dispatch", "policy_version": 3}
    rows: list[dict[str, Any]] = [{**place, "subscription": name, "messages": 20} for name in ("a", "b", "b")]
    named: dict[str, Any] = {**LIMITED, **place, "policy": "max_subscription_dispatch_rate"}
    volume: dict[str, Any] = {**LIMITED, **place, "policy": "max_dispatch_rate_bytes", "limit": 150.0}
    put(log, [*rows, named, volume])  # 300 bytes in a second
    assert [row[4:7] for row in rows_of(log)] == [
        ["max_subscription_dispatch_rate", 2, 0.5],
        ["max_dispatch_rate_bytes", 1, 1.0],
    ]


def test_a_summary_tells_a_tenth_of_a_second(tmp_path: Path) -> None:
    for window, kept in ((0, 0.0), (100, 1.0)):
        log = tmp_path / str(window)
        put(log, [{"messages": 21, "window": window}, LIMITED])
        assert [row[6] for row in rows_of(log)] == [kept]


def brute_force(amounts: Mapping[int, int], rate: int, burst_s: float) -> int:
    """Seconds with which no window ends that had too much."""
    return sum(
        all(
            sum(amounts.get(second, 0) for second in range(begin, end + 1))
            <= rate * (end + 1 - begin) + rate * burst_s
            for begin in range(min(amounts), end + 1)
        )
        for end in amounts
    )


@given(
    st.dictionaries(st.integers(-12, 12), st.integers(0, 9), min_size=1),
    st.integers(1, 4),
    st.sampled_from([0.5, 1.0, 2.0]),
)
def test_any_seconds_are_judged_as_by_all_their_windows(
    amounts: dict[int, int], rate: int, burst_s: float
) -> None:
    """Around midnight: what a day ends with counts in the windows of the next one."""
    kept = KeptSeconds(burst_s)
    for day, seconds in ((-1, range(-12, 0)), (0, range(13))):
        rows = [
            {**LIMITED, **PLACE, "limit": float(rate), "policy_version": 1, "time": MIDNIGHT},
            *(
                {
                    **PLACE,
                    "time": MIDNIGHT + timedelta(seconds=second),
                    "messages": amounts[second],
                    "action": "allow",
                    "policy_version": 1,
                    "window": 0,
                }
                for second in seconds
                if second in amounts
            ),
        ]
        table = pa.Table.from_pylist(rows, schema=SCHEMA)
        kept.name(table)
        kept.add(table)
        kept.end(date(2026, 12, 1) + timedelta(days=day))
    sums = [sum(each) for each in zip(*kept.by_policy.values(), strict=True)]
    assert sums == [len(amounts), brute_force(amounts, rate, burst_s)]
