"""Clients that were told they may not attach, and were served all the same."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sluicegate_reports.registry.arms import PRODUCERS

_CLIENT = ("system", "door", "topic", "role", "client")


def served(observations: DataFrame, tries: DataFrame) -> DataFrame:
    """How many clients got or stored messages after they were refused, and never attached to the topic.

    :param observations: columns of the observations.
    :param tries: see `lanes.tries`, of counts.
    :return: `trial`, `served`; no row of a trial without one.
    """
    told = observations.where(F.col("event").isin("attached", "attach_refused"))
    refused = (
        told.groupBy(*_CLIENT)
        .agg(F.bool_or(F.col("event") == "attached").alias("attached"), F.min("time").alias("refused"))
        .where(~F.col("attached"))
    )
    sends = (F.col("role") == "producer") & (F.col("event") == "acknowledged")
    reads = (F.col("role") == "consumer") & (F.col("event") == "received")
    role = F.when(F.col("policy") == PRODUCERS, "producer").otherwise("consumer")
    of_trial = tries.select("trial", "system", "door", "topic", role.alias("role"), "begin_us", "end_us")
    at_us = F.unix_micros("time")
    return (
        observations.where(sends | reads)
        .join(F.broadcast(refused), on=list(_CLIENT), how="inner")
        .where(F.col("time") > F.col("refused"))
        .join(F.broadcast(of_trial), on=["system", "door", "topic", "role"], how="inner")
        .where((at_us >= F.col("begin_us")) & (at_us < F.col("end_us")))
        .groupBy("trial")
        .agg(F.count_distinct("client").alias("served"))
    )
