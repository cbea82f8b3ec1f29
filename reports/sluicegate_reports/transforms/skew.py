"""The clocks of gates and clients: by how much they differ, from who saw a message when.

A gate admits a message after its client sent it and before its client is told. Whatever the order in which
messages were decided, that is true of the n-th of each when all three are sorted by time: of n matched pairs
with a <= b the sorted lists have it too. So each message bounds the difference from both sides, and the
narrowest bounds hold.
"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

_ARM = ("system", "door", "topic")
_START_S = 20
_FIRST = 1_000
"""Messages of a topic that are looked at, from its start: more would narrow the bounds by little."""


def skew(decisions: DataFrame, observations: DataFrame) -> DataFrame:
    """Bounds of gate minus client, in us.

    :param decisions: columns of the decision log.
    :param observations: columns of the observations.
    :return: `system`, `door`, `pairs` (messages that bound it), `at_least_us`, `at_most_us`; if the first is
        above the second, the clocks have drifted during the run.
    """
    decided = _decided(decisions)
    stored = F.col("event") == "acknowledged"
    answered = observations.where((F.col("role") == "producer") & F.col("event").isin("sent", "acknowledged"))
    whole = Window.partitionBy(*_ARM, "client", "sequence").rowsBetween(
        Window.unboundedPreceding, Window.unboundedFollowing
    )
    kept = answered.withColumn("kept", F.bool_or(stored).over(whole)).where("kept")
    sent = _numbered(kept.where(~stored), "sent_us", "last")
    told = _numbered(kept.where(stored), "told_us", "first")
    bounds = decided.join(sent, on=[*_ARM, "last"], how="inner").join(told, on=[*_ARM, "first"], how="inner")
    return bounds.groupBy("system", "door").agg(
        F.count("decided_us").alias("pairs"),
        F.max(F.col("decided_us") - F.col("told_us")).alias("at_least_us"),
        F.min(F.col("decided_us") + F.col("window_ms") * 1000 - F.col("sent_us")).alias("at_most_us"),
    )


def _decided(decisions: DataFrame) -> DataFrame:
    """When what was admitted was decided, with the numbers of its first and last message."""
    admitted = decisions.where((F.col("operation") == "publish") & F.col("action").isin("allow", "rewrite"))
    up_to = Window.partitionBy(*_ARM).orderBy("time").rowsBetween(Window.unboundedPreceding, 0)
    last = F.sum("messages").over(up_to)
    # Only the start of each topic is sorted, by its own clock, which may be hours away from the clients'.
    starts = admitted.groupBy(*_ARM).agg(F.min("time").alias("start"))
    early = F.col("time") < F.col("start") + F.expr(f"INTERVAL {_START_S} SECONDS")
    begun = admitted.join(F.broadcast(starts), on=list(_ARM), how="inner").where(early)
    return (
        begun.select(*_ARM, "time", "messages", F.col("window").alias("window_ms"))
        .withColumn("last", last)
        .where(F.col("last") <= _FIRST)
        .select(
            *_ARM,
            F.unix_micros("time").alias("decided_us"),
            "window_ms",
            (F.col("last") - F.col("messages") + 1).alias("first"),
            "last",
        )
    )


def _numbered(rows: DataFrame, time: str, number: str) -> DataFrame:
    in_order = Window.partitionBy(*_ARM).orderBy("time")
    return (
        rows.withColumn(number, F.row_number().over(in_order).cast("bigint"))
        .where(F.col(number) <= _FIRST)
        .select(*_ARM, number, F.unix_micros("time").alias(time))
    )
