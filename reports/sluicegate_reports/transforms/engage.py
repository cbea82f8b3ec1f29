"""How soon a limit engages once clients exceed it, and how soon it releases again."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

_RELEASE_S = 1


def engage(slots: DataFrame, lanes: DataFrame, width_us: int) -> DataFrame:
    """Time to engage and to release, to within a slot.

    An ideal bucket is spent when what was asked for since any moment exceeds rate x time + burst. The load
    has fallen when no later second asks for more than the rate.

    :param slots: see `slots.by_client`.
    :param lanes: see `lanes.lanes`.
    :param width_us: of these slots.
    :return: `lane`, `source`, `spent_us` (start of the slot in which an ideal bucket is spent; null if it
        never is), `first_limited_us`, `engage_ms` (from the one to the other; below 0: limited too early),
        `fell_us` (null if the load did not fall before the end), `last_limited_us`, `release_ms`.
    """
    found = (
        _loaded(_summed(slots, lanes), width_us)
        .groupBy("lane", "source")
        .agg(
            F.min("spent_at").alias("spent_us"),
            F.min("first_limited_us").alias("first_limited_us"),
            F.max("busy_until").alias("busy_until"),
            F.max("last_limited_us").alias("last_limited_us"),
            F.first(F.col("end_us") - F.col("begin_us")).alias("length_us"),
        )
    )
    fell = F.when(F.col("busy_until") + 1_000_000 <= F.col("length_us"), F.col("busy_until"))
    after = F.col("last_limited_us") - F.col("fell_us")
    return found.withColumn("fell_us", fell).select(
        "lane",
        "source",
        "spent_us",
        "first_limited_us",
        ((F.col("first_limited_us") - F.col("spent_us")) / 1000).alias("engage_ms"),
        "fell_us",
        "last_limited_us",
        F.when(after >= 0, after / 1000).when(after < 0, F.lit(0.0)).alias("release_ms"),
    )


def _summed(slots: DataFrame, lanes: DataFrame) -> DataFrame:
    """The slots of all clients together, with what their lane says."""
    limits = F.broadcast(lanes.select("lane", "rate", "burst", "begin_us", "end_us"))
    sums = slots.groupBy("lane", "source", "slot").agg(
        F.sum("offered").cast("double").alias("offered"),
        F.min("first_limited_us").alias("first_limited_us"),
        F.max("last_limited_us").alias("last_limited_us"),
    )
    return sums.join(limits, on="lane", how="inner")


def _loaded(sums: DataFrame, width_us: int) -> DataFrame:
    """Adds `spent_at` where an ideal bucket is spent, `busy_until` where a second asks for too much."""
    by_time = Window.partitionBy("lane", "source").orderBy("slot")
    so_far = by_time.rowsBetween(Window.unboundedPreceding, 0)
    start_us = F.col("slot").cast("long") * width_us
    x = F.sum("offered").over(so_far) - F.col("rate") * start_us / 1e6
    risen = sums.withColumn("x", x).withColumn("low", F.min(F.col("x") - F.col("offered")).over(so_far))
    second = by_time.rangeBetween(-(_RELEASE_S * 1_000_000 // width_us) + 1, 0)
    busy = F.sum("offered").over(second) > F.col("rate") * _RELEASE_S
    return risen.select(
        "*",
        F.when(F.col("x") - F.col("low") > F.col("burst"), start_us).alias("spent_at"),
        F.when(busy, start_us + width_us).alias("busy_until"),
    )
