"""When clients were held back, and which tokens they left unused, on small frames."""

import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.reports import frames
from tests.reports.frames import flow, one, rows_of, trial

from sluicegate_reports.transforms import lanes, pressure, slots, windows

S = 1_000_000


def frames_of(spark: SparkSession, held_until_s: float) -> tuple[DataFrame, DataFrame]:
    """Slots of a second, and the lane: 10 a second, held from 1.0 s on; a message at 2.0 s and at 6.0 s."""
    rows = [flow(1.0, 1, "held", until_us=round(held_until_s * S)), flow(2.0), flow(6.0)]
    return slots.by_client(frames.flows(spark, rows), S), lanes.lanes(spark, [trial("max_dispatch_rate")])


def test_pressure_lasts_until_an_empty_bucket_is_full(spark: SparkSession) -> None:
    sums, lane = frames_of(spark, 2.0)
    found = rows_of(pressure.pressure(sums, lane, S), "slot", "idle_us", "pressed")
    assert found[:5] == [(0, S, False), (1, 0, True), (2, S, True), (3, 2 * S, False), (4, 3 * S, False)]


@pytest.mark.parametrize(("held_until_s", "below", "unused"), [(2.0, 0.0, 0.95), (9.0, -1.0, 0.5)])
def test_demand_that_came_too_late_is_not_an_error(
    spark: SparkSession, held_until_s: float, below: float, unused: float
) -> None:
    # In the window from 2 s to 4 s, 9 are lost and 10 are left in the bucket; 1 was admitted. While the gate
    # holds, nothing is; of the last window only what came after the hold's end, at 9 s, is left.
    sums, lane = frames_of(spark, held_until_s)
    under = pressure.pressure(sums, lane, S)
    found = one(windows.rate_error(sums, lane, S, 2, under))
    assert (found["below"], found["unused"]) == (pytest.approx(below), pytest.approx(unused))


def test_a_window_in_which_nothing_could_be_admitted_has_no_error(spark: SparkSession) -> None:
    # No client asks from 2 s to 4 s: the bucket loses 10 tokens and keeps 10, all of this window.
    rows = [flow(1.0, 1, "held", until_us=2 * S), flow(6.0)]
    sums = slots.by_client(frames.flows(spark, rows), S)
    lane = lanes.lanes(spark, [trial("max_dispatch_rate")])
    under = pressure.pressure(sums, lane, S)
    found = one(windows.rate_error(sums, lane, S, 2, under))
    assert (found["pressed"], found["below"], found["unused"]) == (1, None, pytest.approx(1.0))
