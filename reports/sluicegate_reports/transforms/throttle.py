"""Throttling: how long gates hold operations, and how long clients wait for answers."""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

SHARES = (0.5, 0.9, 0.99, 0.999)
_ACCURACY = 10_000


def holds(decisions: DataFrame) -> DataFrame:
    """What gates held, as they announced it when they did.

    :param decisions: columns of the decision log.
    :return: `system`, `door`, `topic`, `policy`, `holds` (operations), `total_ms`, `longest_ms`.
    """
    return (
        decisions.where(F.col("action") == "delay")
        .groupBy("system", "door", "topic", "policy")
        .agg(
            F.sum("decisions").alias("holds"),
            (F.sum("delay") / 1e6).alias("total_ms"),
            (F.max("delay") / 1e6).alias("longest_ms"),
        )
    )


def latencies(observations: DataFrame, shares: Sequence[float] = SHARES) -> DataFrame:
    """How long producers waited for the answer to a message that was stored.

    :param observations: columns of the observations.
    :return: `system`, `door`, `phase`, `topic`, `messages`, `quantiles` (array in ms, one for each share),
        `longest_ms`.
    """
    answered = (F.col("role") == "producer") & (F.col("event") == "acknowledged")
    return (
        observations.where(answered & F.col("latency_ns").isNotNull())
        .groupBy("system", "door", F.col("scenario").alias("phase"), "topic")
        .agg(
            F.count("latency_ns").alias("messages"),
            F.percentile_approx(F.col("latency_ns") / 1e6, list(shares), _ACCURACY).alias("quantiles"),
            (F.max("latency_ns") / 1e6).alias("longest_ms"),
        )
    )
