"""The first second: a full bucket may let through rate + burst in it, and no more."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812


def first_second(flows: DataFrame, slots: DataFrame, lanes: DataFrame) -> DataFrame:
    """What the second after the first admission let through.

    :param flows: see `flows`.
    :param slots: see `slots.by_client`, of the same flows.
    :param lanes: see `lanes.lanes`.
    :return: `lane`, `source`, `first_second`, `allowed` (rate + burst), both in what the lane counts, and
        `largest` (amount admitted at once, which may pass a full bucket even if it is more than that).
    """
    starts = (
        slots.groupBy("lane", "source")
        .agg(F.min("first_us").alias("start_us"))
        .join(F.broadcast(lanes.select("lane", "rate", "burst")), on="lane", how="inner")
    )
    early = F.col("at_us") < F.col("start_us") + 1_000_000
    return (
        flows.where(F.col("action") == "admitted")
        .join(F.broadcast(starts), on=["lane", "source"], how="inner")
        .where(early)
        .groupBy("lane", "source")
        .agg(
            F.sum("amount").alias("first_second"),
            F.first(F.col("rate") + F.col("burst")).alias("allowed"),
            F.max("amount").alias("largest"),
        )
    )
