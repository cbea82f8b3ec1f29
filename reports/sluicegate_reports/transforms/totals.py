"""Totals of each lane by source, for what both sources must agree on."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

_SUMS = ("admitted_messages", "refused_messages", "limited", "otherwise", "asked", "answered")


def totals(slots: DataFrame) -> DataFrame:
    """Sums over a lane.

    :param slots: see `slots.by_client`.
    :return: `lane`, `source`, `admitted_messages`, `refused_messages`, `largest_messages` and `largest` (at
        once), `limited`, `otherwise` (rows), `asked` and `answered` (messages, of clients).
    """
    return slots.groupBy("lane", "source").agg(
        *(F.sum(name).alias(name) for name in _SUMS),
        F.max("largest_messages").alias("largest_messages"),
        F.max("largest").alias("largest"),
    )
