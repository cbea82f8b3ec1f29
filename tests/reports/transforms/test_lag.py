"""What clients had yet to see, on a few rows."""

from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.reports import frames
from tests.reports.frames import flow, trial

from sluicegate_reports.transforms import lag, lanes, windows
from sluicegate_reports.transforms.lag import Carried, Lag
from sluicegate_reports.transforms.lanes import Lane
from sluicegate_reports.transforms.slots import Slots

S = 1_000_000


def seen(at_s: float, amount: int = 1, **changes: Any) -> frames.Row:
    return flow(at_s, amount, **{"source": "clients", **changes})


def lagging(rows: list[frames.Row]) -> tuple[dict[str, Slots], Lane, Lag]:
    """Slots of a second by source, the lane of 10 a second for 10 s, and its lag."""
    sums = {source: each for (_, source), each in frames.slots(rows, S).items()}
    (lane,) = lanes.lanes([trial("max_dispatch_rate")])
    return sums, lane, lag.lag(sums, lane, Carried(), 2.0, 4.0)


def most(late: Lag) -> dict[str, Any]:
    found = lag.most(late)
    assert found
    return found


def test_messages_that_the_log_admits_and_no_client_saw_are_in_transit() -> None:
    rows = [flow(0.5, 10), flow(1.5, 10), flow(2.5, 10), seen(0.6, 10), seen(3.1, 20)]
    _, _, late = lagging(rows)
    assert list(zip(late.behind, late.after, strict=True))[:5] == [(0, 0), (0, 10), (10, 20), (20, 0), (0, 0)]
    assert (most(late)["first_behind"], most(late)["behind"]) == (0, 20)


def test_a_backlog_that_clients_catch_up_on_is_no_error_of_a_window() -> None:
    # 10 a second; what is due from 3 s to 5 s clients see at 5 s, so that two seconds from then on bring 40.
    due_s = [n / 10 + 0.05 for n in range(100)]
    came_s = [5 + (at_s - 3) / 100 if 3 < at_s < 5 else at_s for at_s in due_s]
    sums, lane, late = lagging([*map(flow, due_s), *map(seen, came_s)])
    above = {}
    for source, own in sums.items():
        row = windows.rate_error(own, lane, 2, None, lag=late)
        assert row
        above[source] = (row["above"], row["above_net"])
    one_less = pytest.approx(-1 / 20)
    assert above == {"log": (pytest.approx(0), one_less), "clients": (pytest.approx(1), one_less)}


def test_a_log_is_not_believed_for_longer_than_its_bound() -> None:
    _, _, late = lagging([flow(0.5, 90), seen(9.5, 90)])
    assert most(late)["behind"] == 40


def test_without_a_log_only_what_follows_a_stand_still_is_late() -> None:
    _, _, late = lagging([seen(n / 10) for n in [*range(31), *range(55, 100)]])
    # From 3.0 s to 5.5 s they see nothing; two slots more count as the same moment.
    assert list(late.behind) == pytest.approx([0, 1, 1, 1, 20, 25, 25, 25, 1, 1])
    assert most(late)["behind"] == 20


def test_messages_in_transit_at_the_end_of_a_phase_arrive_in_the_next() -> None:
    phases = [
        trial("max_dispatch_rate", end=frames.at(4)),
        trial("max_dispatch_rate", start=frames.at(4), end=frames.at(8), phase="next"),
        trial("max_dispatch_rate", start=frames.at(9), end=frames.at(10), phase="later"),
    ]
    rows = [flow(3.5, 12), seen(3.6, 5), flow(1, 3, lane=1), seen(0.1, 10, lane=1), flow(0, 1, lane=2)]
    sums: dict[int, dict[str, Slots]] = {}
    for (number, source), each in frames.slots(rows, S, 4 * S).items():
        sums.setdefault(number, {})[source] = each
    of = lanes.lanes(phases)
    carried = lag.carried([(lane, sums[lane.number]) for lane in of])
    assert carried == {1: Carried(7, 7)}
    assert list(lag.lag(sums[1], of[1], carried[1], 2.0, 4.0).behind) == [7, 0, 0, 0]


def test_answers_after_the_end_are_in_transit(spark: SparkSession) -> None:
    told = [(9.9, 0.1), (10.1, 0.2), (10.2, 0.1), (10.0, 0.01)]
    rows = [{"at": at_s, "latency_ns": int(lasted_s * 1e9)} for at_s, lasted_s in told]
    (topic,) = frames.topics(spark, seen=rows)
    assert lag.unanswered(topic, lanes.lanes([trial()])) == {0: 2}
