"""What clients had yet to see, on small frames."""

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.reports import frames
from tests.reports.frames import flow, one, rows_of, trial

from sluicegate_reports.transforms import lag, lanes, slots, windows

S = 1_000_000


def seen(at_s: float, amount: int = 1, **changes: Any) -> frames.Row:
    return flow(at_s, amount, **{"source": "clients", **changes})


def lagging(spark: SparkSession, rows: list[frames.Row]) -> tuple[DataFrame, DataFrame, DataFrame]:
    """Slots of a second, the lane of 10 a second for 10 s, and its lag."""
    sums = slots.by_client(frames.flows(spark, rows), S)
    lane = lanes.lanes(spark, [trial("max_dispatch_rate")])
    return sums, lane, lag.lag(sums, lane, S, 2.0, 4.0)


def test_messages_that_the_log_admits_and_no_client_saw_are_in_transit(spark: SparkSession) -> None:
    rows = [flow(0.5, 10), flow(1.5, 10), flow(2.5, 10), seen(0.6, 10), seen(3.1, 20)]
    _, _, late = lagging(spark, rows)
    found = rows_of(late, "slot", "behind", "after")
    assert found[:5] == [(0, 0, 0), (1, 0, 10), (2, 10, 20), (3, 20, 0), (4, 0, 0)]
    told = one(lag.most(late))
    assert (told["source"], told["first_behind"], told["behind"]) == ("clients", 0, 20)


def test_a_backlog_that_clients_catch_up_on_is_no_error_of_a_window(spark: SparkSession) -> None:
    # 10 a second; what is due from 3 s to 5 s clients see at 5 s, so that two seconds from then on bring 40.
    due_s = [n / 10 + 0.05 for n in range(100)]
    came_s = [5 + (at_s - 3) / 100 if 3 < at_s < 5 else at_s for at_s in due_s]
    sums, lane, late = lagging(spark, [*map(flow, due_s), *map(seen, came_s)])
    errors = windows.rate_error(sums, lane, S, 2, lag=late).collect()
    above = {row["source"]: (row["above"], row["above_net"]) for row in errors}
    one_less = pytest.approx(-1 / 20)
    assert above == {"log": (pytest.approx(0), one_less), "clients": (pytest.approx(1), one_less)}


def test_a_log_is_not_believed_for_longer_than_its_bound(spark: SparkSession) -> None:
    _, _, late = lagging(spark, [flow(0.5, 90), seen(9.5, 90)])
    assert one(lag.most(late))["behind"] == 40


def test_without_a_log_only_what_follows_a_stand_still_is_late(spark: SparkSession) -> None:
    _, _, late = lagging(spark, [seen(n / 10) for n in [*range(31), *range(55, 100)]])
    found = [behind for _, behind in rows_of(late, "slot", "behind")]
    # From 3.0 s to 5.5 s they see nothing; two slots more count as the same moment.
    assert found == pytest.approx([0, 1, 1, 1, 20, 25, 25, 25, 1, 1])
    assert one(lag.most(late))["behind"] == 20


def test_messages_in_transit_at_the_end_of_a_phase_arrive_in_the_next(spark: SparkSession) -> None:
    phases = [
        trial("max_dispatch_rate", end=frames.at(4)),
        trial("max_dispatch_rate", start=frames.at(4), end=frames.at(8), phase="next"),
        trial("max_dispatch_rate", start=frames.at(9), end=frames.at(10), phase="later"),
    ]
    rows = [flow(3.5, 12), seen(3.6, 5), flow(1, 3, lane=1), seen(0.1, 10, lane=1), flow(0, 1, lane=2)]
    sums = slots.by_client(frames.flows(spark, rows), S)
    of = lanes.lanes(spark, phases)
    assert rows_of(lag.carried(sums, of), "lane", "carried", "carried_messages") == [(1, 7, 7)]
    found = rows_of(lag.lag(sums, of, S, 2.0, 4.0).where("lane = 1"), "slot", "behind")
    assert found == [(0, 7), (1, 0), (2, 0), (3, 0)]


def test_answers_after_the_end_are_in_transit(spark: SparkSession) -> None:
    told = [(9.9, 0.1), (10.1, 0.2), (10.2, 0.1), (10.0, 0.01)]
    rows = [{"at": at_s, "latency_ns": int(lasted_s * 1e9)} for at_s, lasted_s in told]
    found = one(lag.unanswered(frames.observed(spark, rows), lanes.lanes(spark, [trial()])))
    assert found == {"lane": 0, "source": "clients", "unanswered": 2}
