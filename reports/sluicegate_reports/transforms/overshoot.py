"""Overshoot: how much more than a token bucket allows the worst window admitted.

With X(t) = admitted up to t - rate x t, the worst window up to t has admitted X(t) - min X(before s), over
s <= t, more than rate x its length; a bucket allows `burst`. As window functions that is a sort of a topic's
whole log. Here each chunk of a second is walked once, which takes a fraction of the time. The chunks are then
joined by their sums, highest and lowest X, as the largest sum of a subarray is joined from parts: the result
is the same, to the rounding of a double.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from sluicegate_reports.transforms.chunks import CHUNK_US, amount, time_us


def overshoot(chunks: DataFrame, lanes: DataFrame) -> DataFrame:
    """The worst window of each lane.

    :param chunks: see `chunks`.
    :param lanes: see `lanes.lanes`.
    :return: `lane`, `source`, `overshoot` in what the lane counts (at most 0: the bucket was kept),
        `admitted`, `window_ms` (how exact the times were).
    """
    rates = lanes.select("lane", "rate", "burst")
    return _across(_walked(chunks.where(F.size("admitted") > 0), rates))


def _walked(chunks: DataFrame, rates: DataFrame) -> DataFrame:
    """Of each chunk: sum, highest X, lowest X before a row, steepest rise; X begins with 0 in each."""
    start = F.struct(
        F.lit(0.0).alias("total"),
        F.lit(float("-inf")).alias("highest"),
        F.lit(float("inf")).alias("lowest"),
        F.lit(float("-inf")).alias("rise"),
    )
    rated = chunks.join(F.broadcast(rates), on="lane", how="inner")
    return rated.withColumn("walked", F.aggregate("admitted", start, _step)).select(
        "lane", "source", "chunk", "rate", "burst", "window_ms", "walked.*"
    )


def _step(so_far: Column, row: Column) -> Column:
    total = so_far["total"] + amount(row)
    passed = F.col("rate") * time_us(row) / 1e6
    lowest = F.least(so_far["lowest"], so_far["total"] - passed)
    x = total - passed
    return F.struct(
        total.alias("total"),
        F.greatest(so_far["highest"], x).alias("highest"),
        lowest.alias("lowest"),
        F.greatest(so_far["rise"], x - lowest).alias("rise"),
    )


def _across(chunks: DataFrame) -> DataFrame:
    """Join the chunks of each lane."""
    lane = Window.partitionBy("lane", "source").orderBy("chunk")
    before = lane.rowsBetween(Window.unboundedPreceding, -1)
    passed = F.col("rate") * F.col("chunk") * (CHUNK_US / 1e6)
    offset = F.coalesce(F.sum("total").over(before), F.lit(0.0)) - passed
    lowest_before = F.min(F.col("offset") + F.col("lowest")).over(before)
    rise = F.greatest("rise", F.col("offset") + F.col("highest") - lowest_before)
    return (
        chunks.withColumn("offset", offset)
        .withColumn("worst", rise - F.col("burst"))
        .groupBy("lane", "source")
        .agg(
            F.max("worst").alias("overshoot"),
            F.sum("total").alias("admitted"),
            F.max("window_ms").alias("window_ms"),
        )
    )
