"""The first second, in which a full bucket admits at most rate + burst."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sluicegate_reports.transforms.chunks import CHUNK_US, amount, time_us


def first_second(chunks: DataFrame, lanes: DataFrame) -> DataFrame:
    """What the second after the first admission let through.

    :param chunks: see `chunks`.
    :param lanes: see `lanes.lanes`.
    :return: `lane`, `source`, `first_second`, `allowed` (rate + burst), both in what the lane counts, and
        `largest` (amount admitted at once, which may pass a full bucket even if it is more than that).
    """
    begun = chunks.where(F.size("admitted") > 0).select("lane", "source", "chunk", "admitted")
    start_us = F.col("chunk") * CHUNK_US + time_us(F.element_at("admitted", 1))
    starts = begun.groupBy("lane", "source").agg(F.min(start_us).alias("start_us"))
    from_start_us = F.col("chunk") * CHUNK_US - F.col("start_us")
    second = F.filter("admitted", lambda row: time_us(row) + F.col("from_start_us") < CHUNK_US)
    return (
        begun.join(F.broadcast(starts), on=["lane", "source"], how="inner")
        .withColumn("from_start_us", from_start_us)
        .where(F.col("from_start_us") < CHUNK_US)
        .select("lane", "source", F.explode(F.transform(second, amount)).alias("amount"))
        .groupBy("lane", "source")
        .agg(F.sum("amount").alias("first_second"), F.max("amount").alias("largest"))
        .join(F.broadcast(lanes.select("lane", "rate", "burst")), on="lane", how="inner")
        .select(
            "lane", "source", "first_second", (F.col("rate") + F.col("burst")).alias("allowed"), "largest"
        )
    )
