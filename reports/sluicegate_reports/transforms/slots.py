"""Slots: flows summed by lane, source, client and short interval, the input of most figures."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

FINE_US = 100_000
"""Width that a summary's windows have too: finer is not to be had from one."""
COARSE_US = 1_000_000
"""Width for long runs."""

_OFFERED_TO_GATE = ("admitted", "refused", "dropped")
_LIMITED = ("refused", "dropped", "held")


def by_client(flows: DataFrame, width_us: int) -> DataFrame:
    """Sums of each client in each slot.

    :param flows: see `flows`.
    :param width_us: of a slot.
    :return: `lane`, `source`, `client`, `slot` (0 begins with the lane), `admitted` and `offered` in what
        the lane counts, `admitted_messages`, `refused_messages`, `answered` and `asked` (by clients),
        `limited` (rows refused, dropped or held), `otherwise` (rows), `until_us` (to which the last hold
        lasts), `seen_first_us` and `seen_last_us` (of any row), `first_us` and `last_us` (of what was
        admitted), `first_limited_us`, `last_limited_us` (null if nothing was), `window_ms` (the longest),
        `largest` and `largest_messages` (admitted at once).
    """
    action, amount, at_us = F.col("action"), F.col("amount"), F.col("at_us")
    of_gate = (F.col("source") == "log") & action.isin(*_OFFERED_TO_GATE)
    admitted_at = F.when(action == "admitted", at_us)
    limited_at = F.when(action.isin(*_LIMITED), at_us)
    return flows.groupBy("lane", "source", "client", F.floor(at_us / width_us).cast("int").alias("slot")).agg(
        F.sum(F.when(action == "admitted", amount).otherwise(0)).alias("admitted"),
        F.sum(F.when(of_gate | (action == "offered"), amount).otherwise(0)).alias("offered"),
        F.sum(F.when(action == "admitted", F.col("messages")).otherwise(0)).alias("admitted_messages"),
        F.sum(F.when(action == "offered", F.col("messages")).otherwise(0)).alias("asked"),
        F.sum(
            F.when(
                (F.col("source") == "clients") & action.isin("admitted", "refused", "failed"),
                F.col("messages"),
            ).otherwise(0)
        ).alias("answered"),
        F.sum(F.when(action.isin("refused", "dropped", "otherwise"), F.col("messages")).otherwise(0)).alias(
            "refused_messages"
        ),
        F.count(limited_at).alias("limited"),
        F.count(F.when(action == "otherwise", 1)).alias("otherwise"),
        F.max("until_us").alias("until_us"),
        F.min("at_us").alias("seen_first_us"),
        F.max("at_us").alias("seen_last_us"),
        F.max(F.when(action == "admitted", F.col("messages"))).alias("largest_messages"),
        F.min(admitted_at).alias("first_us"),
        F.max(admitted_at).alias("last_us"),
        F.min(limited_at).alias("first_limited_us"),
        F.max(limited_at).alias("last_limited_us"),
        F.max("window_ms").alias("window_ms"),
        F.max(F.when(action == "admitted", amount)).alias("largest"),
    )
