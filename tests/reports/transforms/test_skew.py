"""The clock skew of gates and clients, on a few messages."""

from datetime import timedelta
from typing import Any

import pytest
from tests.reports import frames

from sluicegate_reports.transforms import ahead, skew

Row = dict[str, Any]
Bounds = tuple[int, float, float]
"""Pairs, at least and at most, in ms."""


def skews(log: list[Row], seen: list[Row]) -> dict[tuple[str, str], Bounds]:
    """Bounds by gate and client, in ms."""
    topics = frames.topics(log, seen)
    rows = [row for topic in topics for row in skew.spans(topic.topic_key, [skew.of_slice(topic)])]
    return {
        (row["gateway"], row["who"]): (row["pairs"], row["at_least_us"] / 1000, row["at_most_us"] / 1000)
        for row in ahead.skews(rows)
    }


def acked(at_s: float, after_ms: float, client: str = "p1") -> Row:
    return {"at": at_s, "client": client, "latency_ns": int(after_ms * 1e6)}


def test_skew_is_bounded_by_earlier_and_later_events() -> None:
    # The gate's clock is an hour ahead. Each message is sent, decided 2 ms later and told 5 ms after that.
    hour = 3600.0
    log: list[Row] = [{"at": hour + n + 0.002} for n in range(3)] + [{"at": hour + 9, "action": "reject"}]
    seen: list[Row] = [acked(n + 0.007, 7) for n in range(3)]
    seen += [{**acked(2.6, 100), "event": "refused"}, {"at": 3}]  # refused; how long it took is not told
    ms = timedelta(hours=1).total_seconds() * 1000
    assert skews(log, seen) == {("main", "*"): (3, ms - 5, ms + 2)}  # c1 is no name of the observations


def test_skew_of_batches_and_windows() -> None:
    # One window of 100 ms holds both messages: it may have been decided up to its end.
    log: list[Row] = [{"at": 0.05, "messages": 2, "window": 100, "client": None}]
    assert skews(log, [acked(0.08, 20), acked(0.09, 20)]) == {("main", "*"): (1, -30.0, 80.0)}


@pytest.mark.parametrize(
    ("decided", "answered", "pairs"),
    [((0, 1, 2), (0, 2), 3), ((0, 2), (0, 1, 2), 2)],
    ids=["more in the log", "more answers"],
)
def test_skew_where_one_of_the_two_records_more_messages(
    decided: tuple[int, ...], answered: tuple[int, ...], pairs: int
) -> None:
    # Whichever of them is the one too many, each message was sent before it was decided, and told after.
    log: list[Row] = [{"at": n + 0.002} for n in decided]
    seen = [acked(n + 0.007, 7) for n in answered]
    assert skews(log, seen) == {("main", "*"): (pairs, -5.0, 2.0)}


def test_skew_of_each_client_and_gate() -> None:
    # p1's clock is the gate's, p2's is a second behind; p3 goes through two gates, and nobody can tell.
    log: list[Row] = [{"at": n + 0.002, "client": "p1@10.0.0.1:1"} for n in range(2)]
    log += [{"at": n + 0.002, "client": "p2@10.0.0.1:1", "topic": "b"} for n in range(2)]
    log += [{"at": n, "client": "p3@h:1", "topic": "c", "gateway": g} for n, g in ((0, "main"), (1, "other"))]
    seen = [acked(n + 0.004, 4) for n in range(2)]
    seen += [{**acked(n - 0.996, 4, "p2"), "topic": "b"} for n in range(2)]
    seen += [{**acked(n, 4, "p3"), "topic": "c"} for n in range(2)]
    bounds = skews(log, seen)
    assert bounds["main", "p1"] == (2, -2.0, 2.0)
    assert bounds["main", "p2"] == (2, 998.0, 1002.0)
    assert {who for _, who in bounds} == {"*", "p1", "p2"}


def bounds_of(
    who: str,
    low_ms: float,
    high_ms: float,
    gateway: str = "main",
    from_s: float = 0,
    until_s: float = 29,
    topic: str = "orders",
) -> Row:
    topic_key = {
        "system": "kafka",
        "door": "proxy",
        "topic": topic,
        "gateway": gateway,
        "host": "",
        "who": who,
        "pairs": 9,
    }
    topic_key |= {"from_us": int(from_s * 1e6), "until_us": int(until_s * 1e6)}
    return {**topic_key, "at_least_us": low_ms * 1000, "at_most_us": high_ms * 1000}


@pytest.mark.parametrize(
    ("rows", "ahead_ms"),
    [
        ([bounds_of("*", -1, 3)], 0),
        ([bounds_of("*", 10, 20)], 15),
        ([bounds_of("*", 10, 20), bounds_of("p1", 12, 30)], 16),  # the narrower of both ends
        ([bounds_of("*", 10, 20), bounds_of("p1", 30, 40)], 15),  # none holds for all
        ([bounds_of("p1", 10, 20), bounds_of("p2", 30, 40, "other")], 25),
        ([bounds_of("*", 20, 10)], 15),  # drifted
    ],
)
def test_gate_times_are_corrected_by_the_skew(rows: list[Row], ahead_ms: float) -> None:
    assert ahead.ahead(rows) == {("kafka", "proxy"): [(0, ahead_ms * 1000)]}


def test_a_clock_that_is_set_is_followed() -> None:
    """From its step on another difference holds, for topics too of which nothing tells it so soon."""
    first, then = bounds_of("*", 10, 20), bounds_of("*", 3010, 3020, from_s=30, until_s=60)
    other = [
        bounds_of("*", 12, 30, until_s=30.2, topic="b"),
        bounds_of("*", 3012, 3030, from_s=30.5, until_s=60, topic="b"),
    ]
    steps = ahead.ahead([first, then, *other, bounds_of("*", 11, 19, from_s=2, topic="c")])
    arm = ("kafka", "proxy")
    assert steps == {arm: [(0, 15_500), (30_000_000, 3_016_000)]}
    assert [ahead.ahead_at(steps, arm, at_us) for at_us in (-1, 29_999_999, 30_000_000)] == [
        *(15_500, 15_500, 3_016_000)
    ]
    assert ahead.ahead_at(steps, ("pulsar", "proxy"), 0) == 0


def test_the_moment_of_a_step_is_found_anywhere() -> None:
    """Not in the first messages alone: the gate's clock is set 3 s forward after 3,000 of them."""
    offsets = [0.002 if n < 3_000 else 3.002 for n in range(4_000)]
    log: list[Row] = [{"at": n / 10 + offset} for n, offset in enumerate(offsets)]
    (topic,) = frames.topics(log, [acked(n / 10 + 0.007, 7) for n in range(4_000)])
    spans = skew.spans(topic.topic_key, [skew.of_slice(topic)])
    own = [(row["pairs"], row["at_least_us"], row["at_most_us"]) for row in spans if row["who"] == "*"]
    assert own == [(3_000, -5_000, 2_000), (1_000, 2_995_000, 3_002_000)]
    assert spans[1]["from_us"] - spans[0]["from_us"] == 300_000_000
