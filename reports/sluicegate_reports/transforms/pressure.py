"""Pressure: when the clients of a lane asked for more than its limit, as observed and not as planned."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

_STALLED_US = 1_000_000


def pressure(slots: DataFrame, lanes: DataFrame, width_us: int) -> DataFrame:
    """How long each slot of a lane was without pressure.

    A gateway's clients are under pressure while it refuses or holds what they ask for, and while they wait
    and nothing is admitted. Where there is no log, waiting is all that is seen: producers that wait for any
    answer are taken to be held back, and consumers always, since what waits for them is not seen.

    Clients that are not planned to ask for more are under pressure only while they are refused or held: by
    the log where there is one, as a broker may refuse for reasons of its own.

    It goes on after a refusal or the end of a hold for as long as a full bucket lasts: a bucket that was
    empty loses nothing until it is full, so a client that asks again by then gets all that there is.

    :param slots: see `slots.by_client`; of both sources.
    :param lanes: see `lanes.lanes`.
    :param width_us: of these slots.
    :return: `lane`, `slot` (all of the lane), `idle_us` (time at its end since the clients were held back
        last, or since the lane began), `pressed`.
    """
    filled = _filled(slots, lanes, width_us)
    by_slot = Window.partitionBy("lane").orderBy("slot")
    so_far = by_slot.rowsBetween(Window.unboundedPreceding, 0)
    second = by_slot.rowsBetween(1 - max(1, _STALLED_US // width_us), 0)
    waiting = (F.sum("asked").over(so_far) - F.sum("answered").over(so_far)) > 0
    stalled = waiting & (F.sum("admitted").over(second) == 0)
    unseen = F.col("operation") != "publish"
    held = F.col("saturated") & F.when(F.col("logged"), stalled).otherwise(waiting | unseen)
    until_us, begin_us = F.max("until_us").over(so_far), F.col("slot") * width_us
    ended_us = begin_us + width_us
    # Of clients that seldom come to the limit, a slot that is pressed in part would make much of little.
    as_long = F.when(F.col("saturated"), begin_us).otherwise(ended_us - 1)
    limited = F.coalesce(as_long < until_us + F.col("full_us"), F.lit(False))
    idle_us = F.greatest(ended_us - F.coalesce(until_us, F.lit(0)), F.lit(0))
    return filled.select(
        "lane",
        "slot",
        F.when(held, F.lit(0)).otherwise(idle_us).alias("idle_us"),
        (held | limited).alias("pressed"),
    )


def _filled(slots: DataFrame, lanes: DataFrame, width_us: int) -> DataFrame:
    """Every slot of each lane: what was asked, answered and admitted, and until when clients were limited."""
    of_clients, of_log = F.col("source") == "clients", F.col("source") == "log"
    limited_us = F.greatest("until_us", "last_limited_us")
    sums = slots.groupBy("lane", "slot").agg(
        F.max(limited_us).alias("until_us"),
        F.max(F.when(of_log, limited_us)).alias("log_until_us"),
        F.sum("asked").alias("asked"),
        F.sum("answered").alias("answered"),
        F.sum(F.when(of_clients, F.col("admitted"))).alias("admitted"),
    )
    logged = slots.groupBy("lane").agg(F.bool_or(of_log).alias("logged"))
    last = F.floor((F.col("end_us") - F.col("begin_us")) / width_us).cast("int") - 1
    every = (
        lanes.join(logged, on="lane", how="inner")
        .where(last >= 0)
        .select(
            "lane",
            "logged",
            "saturated",
            "operation",
            (F.col("burst") / F.col("rate") * 1e6).alias("full_us"),
            F.explode(F.sequence(F.lit(0), last)).alias("slot"),
        )
    )
    either = F.col("saturated") | ~F.col("logged")
    return (
        every.join(sums, on=["lane", "slot"], how="left")
        .withColumn("until_us", F.when(either, F.col("until_us")).otherwise(F.col("log_until_us")))
        .na.fill(0, ["asked", "answered", "admitted"])
    )
