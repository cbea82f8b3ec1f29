"""Fairness between clients of one topic: Jain's index (DEC-TR-301, 1984)."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812


def jain(slots: DataFrame) -> DataFrame:
    """Jain's index of what the clients of each lane got, those that got nothing too.

    :param slots: see `slots.by_client`; sums that tell no client (summaries) are left out.
    :return: `lane`, `source`, `clients`, `jain` (1.0: all got the same; 1.0 too if none got anything).
    """
    shares = (
        slots.where(F.col("client").isNotNull())
        .groupBy("lane", "source", "client")
        .agg(F.sum("admitted").cast("double").alias("share"))
    )
    squares = F.sum(F.col("share") * F.col("share"))
    index = F.pow(F.sum("share"), 2) / (F.count("share") * squares)
    return shares.groupBy("lane", "source").agg(
        F.count("share").alias("clients"),
        F.when(squares > 0, index).otherwise(1.0).alias("jain"),
    )
