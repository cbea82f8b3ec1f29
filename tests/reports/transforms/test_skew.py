"""The clock skew of gates and clients, on a few messages."""

from datetime import timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.reports import frames

from sluicegate_reports.transforms import skew

Row = dict[str, Any]
Bounds = tuple[int, float, float]
"""Pairs, at least and at most, in ms."""


def skews(spark: SparkSession, log: list[Row], seen: list[Row]) -> dict[tuple[str, str], Bounds]:
    """Bounds by gate and client, in ms."""
    parts = [part for topic in frames.topics(spark, log, seen) for _, part in skew.skew(topic)]
    return {
        (row["gateway"], row["who"]): (row["pairs"], row["at_least_us"] / 1000, row["at_most_us"] / 1000)
        for row in skew.skew_together(("kafka", "proxy"), parts)
    }


def acked(at_s: float, after_ms: float, client: str = "p1") -> Row:
    return {"at": at_s, "client": client, "latency_ns": int(after_ms * 1e6)}


def test_skew_is_bounded_by_earlier_and_later_events(spark: SparkSession) -> None:
    # The gate's clock is an hour ahead. Each message is sent, decided 2 ms later and told 5 ms after that.
    hour = 3600.0
    log: list[Row] = [{"at": hour + n + 0.002} for n in range(3)] + [{"at": hour + 9, "action": "reject"}]
    seen: list[Row] = [acked(n + 0.007, 7) for n in range(3)]
    seen += [{**acked(2.6, 100), "event": "refused"}, {"at": 3}]  # refused; how long it took is not told
    ms = timedelta(hours=1).total_seconds() * 1000
    assert skews(spark, log, seen) == {
        ("main", "*"): (3, ms - 5, ms + 2)
    }  # c1 is no name of the observations


def test_skew_of_batches_and_windows(spark: SparkSession) -> None:
    # One window of 100 ms holds both messages: it may have been decided up to its end.
    log: list[Row] = [{"at": 0.05, "messages": 2, "window": 100, "client": None}]
    assert skews(spark, log, [acked(0.08, 20), acked(0.09, 20)]) == {("main", "*"): (1, -30.0, 80.0)}


@pytest.mark.parametrize(
    ("decided", "answered", "pairs"),
    [((0, 1, 2), (0, 2), 3), ((0, 2), (0, 1, 2), 2)],
    ids=["more in the log", "more answers"],
)
def test_skew_where_one_of_the_two_records_more_messages(
    spark: SparkSession, decided: tuple[int, ...], answered: tuple[int, ...], pairs: int
) -> None:
    # Whichever of them is the one too many, each message was sent before it was decided, and told after.
    log: list[Row] = [{"at": n + 0.002} for n in decided]
    seen = [acked(n + 0.007, 7) for n in answered]
    assert skews(spark, log, seen) == {("main", "*"): (pairs, -5.0, 2.0)}


def test_skew_of_each_client_and_gate(spark: SparkSession) -> None:
    # p1's clock is the gate's, p2's is a second behind; p3 goes through two gates, and nobody can tell.
    log: list[Row] = [{"at": n + 0.002, "client": "p1@10.0.0.1:1"} for n in range(2)]
    log += [{"at": n + 0.002, "client": "p2@10.0.0.1:1", "topic": "b"} for n in range(2)]
    log += [{"at": n, "client": "p3@h:1", "topic": "c", "gateway": g} for n, g in ((0, "main"), (1, "other"))]
    seen = [acked(n + 0.004, 4) for n in range(2)]
    seen += [{**acked(n - 0.996, 4, "p2"), "topic": "b"} for n in range(2)]
    seen += [{**acked(n, 4, "p3"), "topic": "c"} for n in range(2)]
    found = skews(spark, log, seen)
    assert found["main", "p1"] == (2, -2.0, 2.0)
    assert found["main", "p2"] == (2, 998.0, 1002.0)
    assert {who for _, who in found} == {"*", "p1", "p2"}


def bounds_of(who: str, low_ms: float, high_ms: float, gateway: str = "main") -> Row:
    place = {"system": "kafka", "door": "proxy", "gateway": gateway, "who": who, "pairs": 9}
    return {**place, "at_least_us": low_ms * 1000, "at_most_us": high_ms * 1000}


@pytest.mark.parametrize(
    ("rows", "ahead_ms"),
    [
        ([bounds_of("*", -1, 3)], None),
        ([bounds_of("*", 10, 20)], 15),
        ([bounds_of("*", 10, 20), bounds_of("p1", 12, 30)], 16),  # the narrower of both ends
        ([bounds_of("*", 10, 20), bounds_of("p1", 30, 40)], 15),  # none holds for all
        ([bounds_of("p1", 10, 20), bounds_of("p2", 30, 40, "other")], 25),
        ([bounds_of("*", 20, 10)], 15),  # drifted
    ],
)
def test_gate_times_are_corrected_by_the_skew(rows: list[Row], ahead_ms: float | None) -> None:
    expected = {} if ahead_ms is None else {("kafka", "proxy"): ahead_ms * 1000}
    assert skew.ahead_us(rows) == expected
