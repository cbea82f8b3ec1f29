"""The cost of decisions: percentiles of the column `decision_cost`."""

from collections.abc import Sequence

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

SHARES = (0.5, 0.9, 0.99, 0.999)

_BITS = 10
"""Costs are counted to so many bits after the first, hence to 0.1 %: counting a few thousand numbers takes a
third of the time of a sketch of all of them, and its error is known."""


def percentiles(decisions: DataFrame, shares: Sequence[float] = SHARES) -> DataFrame:
    """Percentiles for each system and door, by nearest rank; rows whose cost was not timed are left out.

    :param decisions: columns of the decision log.
    :return: `system`, `door`, `timed` (rows), and for each share `p50`, `p99_9` and so on, in ns: at most
        0.1 % above the exact value, never below it.
    """
    cost = F.col("decision_cost")
    shift = F.greatest(F.floor(F.log2(F.greatest(cost, F.lit(1)))) - _BITS, F.lit(0)).cast("int")
    counted = (
        decisions.where(cost.isNotNull())
        .select("system", "door", cost.alias("cost"), shift.alias("shift"))
        .select(
            "system",
            "door",
            F.expr("shiftleft(shiftright(cost, shift) + 1, shift) - 1").alias("at_most"),
        )
        .groupBy("system", "door", "at_most")
        .count()
    )
    arm = Window.partitionBy("system", "door")
    up_to = arm.orderBy("at_most").rowsBetween(Window.unboundedPreceding, 0)
    whole = arm.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    ranked = counted.withColumn("rank", F.sum("count").over(up_to)).withColumn(
        "timed", F.sum("count").over(whole)
    )
    return ranked.groupBy("system", "door").agg(
        F.first("timed").alias("timed"),
        *(
            F.min(F.when(F.col("rank") >= F.ceil(F.col("timed") * share), F.col("at_most"))).alias(
                name(share)
            )
            for share in shares
        ),
    )


def name(share: float) -> str:
    """A percentile's column: `p50`, `p99_9`."""
    return f"p{share * 100:g}".replace(".", "_")
