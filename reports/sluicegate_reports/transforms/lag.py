"""Lag: what a gate had let pass and clients had not seen yet, which they see at once when they catch up.

On a machine that stalls, clients see more in a window than was let pass in it: what was on its way when the
window began, less what was when it ended. Beside a log both are known. Without one only a stand-still of the
clients tells that something came late: what the rate gave in that time may come at its end.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

_PLACE = ("policy", "system", "door", "topic", "subscription")
_CATCHING_UP = 2
"""Slots after a stand-still in which clients still see what came meanwhile."""


def lag(slots: DataFrame, lanes: DataFrame, width_us: int, stall_s: float, transit_s: float) -> DataFrame:
    """What clients had yet to see, slot by slot.

    :param slots: see `slots.by_client`; of both sources.
    :param lanes: see `lanes.lanes`; all of them.
    :param width_us: of these slots.
    :param stall_s: where there is no log, so long a stand-still, at most, tells what came late.
    :param transit_s: beside a log, so much of the rate, at most, counts as on its way.
    :return: `lane`, `slot` (all of the lane), `came` (what clients saw in it), `behind` and `after` (what
        they had yet to see when it began and when it ended), `most_behind` (what counts of it at most); in
        what the lane counts; `carried_messages`, see `carried`.
    """
    filled = _filled(slots, lanes, width_us)
    by_slot = Window.partitionBy("lane").orderBy("slot")
    before = by_slot.rowsBetween(Window.unboundedPreceding, -1)
    owed = F.col("carried") + F.coalesce(F.sum(F.col("let_pass") - F.col("came")).over(before), F.lit(0))
    ended_us = (F.col("slot") + 1) * width_us
    gap_us = F.coalesce("first_us", ended_us) - F.max("last_us").over(before)
    stalled = F.max("gap_us").over(by_slot.rowsBetween(-_CATCHING_UP, 0))
    missed = F.col("rate") * F.coalesce(stalled, F.lit(0)) / 1e6
    behind = F.when(F.col("logged"), F.greatest(owed, F.lit(0))).otherwise(missed)
    return (
        filled.withColumn("gap_us", gap_us)
        .withColumn("behind", behind)
        .withColumn("after", F.lead("behind").over(by_slot))
        .where(F.col("after").isNotNull())
        .withColumn("most_behind", F.col("rate") * F.when(F.col("logged"), transit_s).otherwise(stall_s))
        .select("lane", "slot", "came", "behind", "after", "most_behind", "carried_messages")
    )


def most(lag: DataFrame) -> DataFrame:
    """The lag of each lane as a whole.

    :param lag: see `lag`.
    :return: `lane`, `source` (the clients), `first_behind` (when they saw the first), `behind` (at most),
        `carried_messages`.
    """
    counted = lag.withColumn("behind", F.least("behind", "most_behind"))
    first = F.min(F.when(F.col("came") > 0, F.struct("slot", "behind")))
    return counted.groupBy("lane", F.lit("clients").alias("source")).agg(
        first["behind"].alias("first_behind"),
        F.max("behind").alias("behind"),
        F.max("carried_messages").alias("carried_messages"),
    )


def carried(slots: DataFrame, lanes: DataFrame) -> DataFrame:
    """What was on its way to the clients when a lane began: let pass in earlier ones and not seen there.

    :return: `lane`, `carried` in what the lane counts, `carried_messages`; only of lanes that begin where
        another one of their place ends.
    """
    of_log = F.col("source") == "log"
    left = (
        F.sum(F.when(of_log, F.col(name)).otherwise(-F.col(name))).alias(name)
        for name in ("admitted", "admitted_messages")
    )
    sums = slots.groupBy("lane").agg(F.bool_or(of_log).alias("logged"), *left)
    place = Window.partitionBy(*_PLACE).orderBy("begin_us")
    before = place.rowsBetween(Window.unboundedPreceding, -1)

    def so_far(name: str) -> Column:
        return F.greatest(F.sum(name).over(before), F.lit(0))

    return (
        lanes.join(sums, on="lane", how="inner")
        .where(F.col("logged"))
        .select(
            "lane",
            so_far("admitted").alias("carried"),
            so_far("admitted_messages").alias("carried_messages"),
            (F.lag("end_us").over(place) == F.col("begin_us")).alias("next"),
        )
        .where(F.col("next"))
        .drop("next")
    )


def unanswered(observations: DataFrame, lanes: DataFrame) -> DataFrame:
    """Messages that were sent before their lane's end and acknowledged after it.

    :return: `lane`, `source` (the clients), `unanswered`.
    """
    told_us = F.unix_micros("time")
    sent_us = told_us - F.col("latency_ns") / 1000
    acknowledged = (F.col("role") == "producer") & (F.col("event") == "acknowledged")
    ends = lanes.where(F.col("operation") == "publish").select("lane", "system", "door", "topic", "end_us")
    return (
        observations.where(acknowledged)
        .select("system", "door", "topic", "messages", sent_us.alias("sent_us"), told_us.alias("told_us"))
        .join(F.broadcast(ends), on=["system", "door", "topic"], how="inner")
        .where((F.col("sent_us") < F.col("end_us")) & (F.col("told_us") >= F.col("end_us")))
        .groupBy("lane", F.lit("clients").alias("source"))
        .agg(F.sum("messages").alias("unanswered"))
    )


def _filled(slots: DataFrame, lanes: DataFrame, width_us: int) -> DataFrame:
    """Every slot of each lane, and one more: what the log let pass, what came, when clients saw anything."""
    of_log, of_clients = F.col("source") == "log", F.col("source") == "clients"
    sums = slots.groupBy("lane", "slot").agg(
        F.sum(F.when(of_log, F.col("admitted"))).alias("let_pass"),
        F.sum(F.when(of_clients, F.col("admitted"))).alias("came"),
        F.min(F.when(of_clients, F.col("seen_first_us"))).alias("first_us"),
        F.max(F.when(of_clients, F.col("seen_last_us"))).alias("last_us"),
    )
    logged = slots.groupBy("lane").agg(F.bool_or(of_log).alias("logged"))
    end = F.floor((F.col("end_us") - F.col("begin_us")) / width_us).cast("int")
    every = (
        lanes.join(logged, on="lane", how="inner")
        .where(end > 0)
        .select("lane", "rate", "logged", F.explode(F.sequence(F.lit(0), end)).alias("slot"))
        .join(carried(slots, lanes), on="lane", how="left")
    )
    found = every.join(sums, on=["lane", "slot"], how="left")
    return found.na.fill(0, ["carried", "carried_messages", "let_pass", "came"])
