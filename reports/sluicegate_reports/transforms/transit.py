"""Transit: how long messages took that nothing keeps back, the yardstick for those that wait.

Where a whole machine stands still, everything comes late. What a policy does to a message is what comes on
top of that. Messages of topics without a rate, a delay or a bound on unacknowledged messages tell it. If none
of them was under way, a pause in all that the clients of an arm saw tells it too.
"""

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812

from sluicegate_reports.model.runs import Family, Trial, measured_as
from sluicegate_reports.transforms.lanes import small

ARM = ("system", "door")
SLOT_US = 100_000
AROUND = 2
"""Slots before and after one that count as the same moment."""
_KEEPING = (Family.RATE, Family.DELAY, Family.ASKED_DELAY, Family.UNACKED)
_MOST, _TIMES = 0.9, 3
"""So many times as long as what so large a share of the arm's gaps lasts, a gap is a pause: else clients that
seldom do anything would always pause."""


def keeping(spark: SparkSession, trials: Sequence[Trial]) -> DataFrame:
    """The topics on which a policy keeps messages back: `system`, `door`, `topic`."""
    places = {(t.system, t.door, t.topic) for t in trials if measured_as(t).family in _KEEPING}
    return small(spark, sorted(places), "system string, door string, topic string")


def transit(observations: DataFrame, kept: DataFrame) -> DataFrame:
    """The longest transit at each moment.

    :param observations: columns of the observations.
    :param kept: see `keeping`; small.
    :return: `system`, `door`, `slot` (of `SLOT_US` since 1970), `transit_us`: of what was sent or came within
        `AROUND` slots of it, or of a pause that ended there. A slot of which nothing tells has no row.
    """
    told = _of_messages(observations, kept).unionByName(_of_pauses(observations))
    by_slot = told.groupBy(*ARM, "slot").agg(F.max("transit_us").alias("transit_us"))
    near = F.explode(F.sequence(F.col("slot") - AROUND, F.col("slot") + AROUND)).alias("slot")
    return (
        by_slot.select(*ARM, near, "transit_us")
        .groupBy(*ARM, "slot")
        .agg(F.max("transit_us").alias("transit_us"))
    )


def _of_messages(observations: DataFrame, kept: DataFrame) -> DataFrame:
    sent_us, came_us = F.unix_micros("published"), F.unix_micros("time")
    ends = F.explode(F.array(*(F.floor(each / SLOT_US) for each in (sent_us, came_us)))).alias("slot")
    return (
        observations.where((F.col("event") == "received") & F.col("published").isNotNull())
        .join(F.broadcast(kept), on=[*ARM, "topic"], how="left_anti")
        .select(*ARM, ends, (came_us - sent_us).alias("transit_us"))
    )


def _of_pauses(observations: DataFrame) -> DataFrame:
    at_us = F.unix_micros("time")
    by_slot = observations.groupBy(*ARM, F.floor(at_us / SLOT_US).alias("slot")).agg(
        F.min(at_us).alias("first_us"), F.max(at_us).alias("last_us")
    )
    before = F.lag("last_us").over(Window.partitionBy(*ARM).orderBy("slot"))
    gaps = by_slot.select(*ARM, "slot", (F.col("first_us") - before).alias("transit_us"))
    usual = gaps.groupBy(*ARM).agg(F.percentile_approx("transit_us", _MOST).alias("usual_us"))
    return (
        gaps.join(F.broadcast(usual), on=list(ARM), how="inner")
        .where(F.col("transit_us") > _TIMES * F.col("usual_us"))
        .drop("usual_us")
    )
