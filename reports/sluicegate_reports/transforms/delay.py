"""Delivery under a fixed delay: lateness of messages, and that none comes early."""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sluicegate_reports.transforms.transit import ARM, SLOT_US
from sluicegate_reports.verdicts.thresholds import EARLY_MS

SHARES = (0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999)
EDGES_MS = (
    *(-1000, -500, -200, -100, -50, -20, -10, -5, -2, -1),
    *(0, 1, 2, 5, 10, 20, 50, 100, 150, 200, 250, 300, 400, 500, 750),
    *(1000, 2000, 5000, 10_000, 30_000, 60_000),
)
"""Where the stretches of the distribution begin; the first has all that is earlier too."""
_ACCURACY = 10_000


def errors(
    observations: DataFrame, tries: DataFrame, transit: DataFrame, shares: Sequence[float] = SHARES
) -> DataFrame:
    """How much later than published + delay messages came.

    :param observations: columns of the observations; publishing and delivery are on one clock.
    :param tries: see `lanes.tries`, of fixed delays.
    :param transit: see `transit.transit`.
    :return: `trial`, `messages`, `soonest_ms` (from sending to arrival, of any message of the arm), `early`
        (more than EARLY_MS too early; null if clocks differ, as `soonest_ms` then shows), `least_ms`,
        `most_ms`, `quantiles`
        (array in ms, one for each share), `up_to` (array: messages less late than each of EDGES_MS),
        `beyond` (as `quantiles`, of the lateness less the transit of others when the message was sent or when
        it came, whichever was longer; at least 0).
    """
    received = _received(observations)
    soonest = received.groupBy(*ARM).agg(F.min("took_ms").alias("soonest_ms"))
    late = received.join(F.broadcast(tries), on=[*ARM, "topic", "phase"], how="inner").withColumn(
        "late_ms", F.col("took_ms") - F.col("limit")
    )
    for moment in ("sent", "came"):
        then = transit.select(
            *ARM, F.col("slot").alias(f"{moment}_slot"), F.col("transit_us").alias(f"{moment}_us")
        )
        late = late.join(then, on=[*ARM, f"{moment}_slot"], how="left")
    others_ms = F.coalesce(F.greatest("sent_us", "came_us"), F.lit(0)) / 1000
    beyond_ms = F.greatest(F.col("late_ms") - others_ms, F.lit(0.0))
    early = F.count(F.when(F.col("late_ms") < -EARLY_MS, 1))
    late = late.join(F.broadcast(soonest), on=list(ARM), how="inner")
    soonest_ms = F.min("soonest_ms")
    return late.groupBy("trial").agg(
        F.count("late_ms").alias("messages"),
        soonest_ms.alias("soonest_ms"),
        F.when(soonest_ms >= -EARLY_MS, early).alias("early"),
        F.min("late_ms").alias("least_ms"),
        F.max("late_ms").alias("most_ms"),
        F.percentile_approx("late_ms", list(shares), _ACCURACY).alias("quantiles"),
        F.array(*(F.count(F.when(F.col("late_ms") < edge, 1)) for edge in EDGES_MS)).alias("up_to"),
        F.percentile_approx(beyond_ms, list(shares), _ACCURACY).alias("beyond"),
    )


def _received(observations: DataFrame) -> DataFrame:
    """What came: how long it took, and in which slots it was sent and came."""
    sent_us, came_us = F.unix_micros("published"), F.unix_micros("time")
    return observations.where((F.col("event") == "received") & F.col("published").isNotNull()).select(
        *ARM,
        "topic",
        F.col("scenario").alias("phase"),
        ((came_us - sent_us) / 1000).alias("took_ms"),
        F.floor(sent_us / SLOT_US).alias("sent_slot"),
        F.floor(came_us / SLOT_US).alias("came_slot"),
    )
