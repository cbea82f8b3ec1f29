"""Delivery under a fixed delay: how late messages come, and that none comes early."""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

SHARES = (0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999)
EARLY_MS = 1.0
"""Brokers stamp messages in whole milliseconds and clients in microseconds, so up to one is no earliness."""
_ACCURACY = 10_000


def errors(observations: DataFrame, tries: DataFrame, shares: Sequence[float] = SHARES) -> DataFrame:
    """How much later than published + delay messages came.

    :param observations: columns of the observations; publishing and delivery are on one clock.
    :param tries: see `lanes.tries`, of fixed delays.
    :return: `trial`, `messages`, `early` (more than EARLY_MS too early), `least_ms`, `most_ms`, `quantiles`
        (array in ms, one for each share).
    """
    late_ms = F.unix_micros("time") / 1000 - F.unix_micros("published") / 1000 - F.col("limit")
    received = observations.where((F.col("event") == "received") & F.col("published").isNotNull()).select(
        "system", "door", "topic", F.col("scenario").alias("phase"), "time", "published"
    )
    late = received.join(F.broadcast(tries), on=["system", "door", "topic", "phase"], how="inner").withColumn(
        "late_ms", late_ms
    )
    return late.groupBy("trial").agg(
        F.count("late_ms").alias("messages"),
        F.count(F.when(F.col("late_ms") < -EARLY_MS, 1)).alias("early"),
        F.min("late_ms").alias("least_ms"),
        F.max("late_ms").alias("most_ms"),
        F.percentile_approx("late_ms", list(shares), _ACCURACY).alias("quantiles"),
    )
