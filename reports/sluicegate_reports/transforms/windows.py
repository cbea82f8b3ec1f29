"""Rates over windows: what each second admitted, and how far windows are from the limit."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

_SETTLED_S = 2.0
"""Seconds from a lane's start after which a full bucket of one second is taken to be spent, where nothing
tells: enough for clients that ask for half as much again as the limit."""


def per_second(slots: DataFrame, width_us: int) -> DataFrame:
    """What each second of a lane admitted, was asked for and limited, all clients together.

    :param slots: see `slots.by_client`.
    :param width_us: of these slots; a divisor of a second.
    :return: `lane`, `source`, `second`, `admitted`, `offered`, `limited`.
    """
    second = F.floor(F.col("slot") * width_us / 1_000_000).cast("int").alias("second")
    return slots.groupBy("lane", "source", second).agg(
        F.sum("admitted").alias("admitted"),
        F.sum("offered").alias("offered"),
        F.sum("limited").alias("limited"),
    )


def rate_error(slots: DataFrame, lanes: DataFrame, width_us: int, window_s: int) -> DataFrame:
    """The windows that are furthest from the rate, among all of one length, each a slot after the one before.

    Windows begin when the burst is spent: after the slot in which something was limited for the first time.
    They end with the lane. Slots in which nothing happened count as 0.

    :param slots: see `slots.by_client`.
    :param lanes: see `lanes.lanes`.
    :param width_us: of these slots; a divisor of a second.
    :param window_s: length of a window in s.
    :return: `lane`, `source`, `windows` (how many), `above`, `below` (largest and smallest relative error,
        0.01 for one percent; `below` only means something where clients always asked for more), `largest`
        (amount admitted at once). A lane too short for one window has no row.
    """
    length = window_s * 1_000_000 // width_us
    filled = _filled(slots, lanes, width_us)
    lane = Window.partitionBy("lane", "source").orderBy("slot")
    window = lane.rowsBetween(1 - length, 0)
    whole = F.col("slot") - length + 1 >= F.col("steady")
    error = F.sum("admitted").over(window) / (F.col("rate") * window_s) - 1
    return (
        filled.withColumn("error", error)
        .where(whole)
        .groupBy("lane", "source")
        .agg(
            F.count("error").alias("windows"),
            F.max("error").alias("above"),
            F.min("error").alias("below"),
            F.max("largest").alias("largest"),
        )
    )


def _filled(slots: DataFrame, lanes: DataFrame, width_us: int) -> DataFrame:
    """Every slot of each lane, with the slot from which the rate alone counts."""
    sums = slots.groupBy("lane", "source", "slot").agg(
        F.sum("admitted").alias("admitted"), F.max("largest").alias("largest")
    )
    starts = slots.groupBy("lane", "source").agg(
        F.min(F.when(F.col("limited") > 0, F.col("slot"))).alias("limited_slot")
    )
    last = F.floor((F.col("end_us") - F.col("begin_us")) / width_us).cast("int") - 1
    every = (
        starts.join(F.broadcast(lanes), on="lane", how="inner")
        .where(last >= 0)
        .select(
            "lane",
            "source",
            "rate",
            _steady(width_us).alias("steady"),
            F.explode(F.sequence(F.lit(0), last)).alias("slot"),
        )
    )
    return every.join(sums, on=["lane", "source", "slot"], how="left").na.fill(0, ["admitted"])


def _steady(width_us: int) -> Column:
    settled_us = _SETTLED_S * 1_000_000 * F.col("burst") / F.col("rate")
    return F.coalesce(F.col("limited_slot") + 1, F.ceil(settled_us / width_us)).cast("int")
