"""Totals of each lane by source, for what both sources must agree on."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

_SUMS = ("admitted_messages", "refused_messages", "limited", "otherwise", "asked", "answered")


def totals(slots: DataFrame) -> DataFrame:
    """Sums over a lane, and how long its source saw nothing.

    :param slots: see `slots.by_client`.
    :return: `lane`, `source`, `admitted_messages`, `refused_messages`, `largest_messages` and `largest` (at
        once), `limited`, `otherwise` (rows), `asked` and `answered` (messages, of clients), `stalled_us`
        (longest time between two rows; of clients a stand-still, after which they see much at once).
    """
    by_slot = slots.groupBy("lane", "source", "slot").agg(
        *(F.sum(name).alias(name) for name in _SUMS),
        F.max("largest_messages").alias("largest_messages"),
        F.max("largest").alias("largest"),
        F.min("seen_first_us").alias("first_us"),
        F.max("seen_last_us").alias("last_us"),
    )
    before = F.lag("last_us").over(Window.partitionBy("lane", "source").orderBy("slot"))
    return (
        by_slot.withColumn("gap_us", F.col("first_us") - before)
        .groupBy("lane", "source")
        .agg(
            *(F.sum(name).alias(name) for name in _SUMS),
            F.max("largest_messages").alias("largest_messages"),
            F.max("largest").alias("largest"),
            F.max("gap_us").alias("stalled_us"),
        )
    )
