"""What became of messages: lost, doubled, out of order, or delivered though they were told as refused."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

_ARM = ("system", "door", "topic")
_MESSAGE = (*_ARM, "producer", "sequence")


def delivery(observations: DataFrame) -> DataFrame:
    """Compare what producers were told with what each subscription got.

    Order is that of one producer at one consumer, first deliveries only; topics have one partition. What a
    subscription that began late could not get counts as lost: scenarios attach consumers first.

    :param observations: columns of the observations.
    :return: for each `system`, `door`, `topic`, `subscription` that a consumer had: `acknowledged` (messages
        that producers were told to be stored), `received` (different messages), `lost`,
        `duplicates` (deliveries too many), `reordered`, `told_refused` (received, though
        refused or failed was the answer).
    """
    answers = _answers(observations)
    received = _received(observations)
    # One that attached and got nothing lost everything: what was received alone would not tell of it.
    attached = observations.where((F.col("role") == "consumer") & (F.col("event") == "attached"))
    subscriptions = received.select(*_ARM, "subscription").union(attached.select(*_ARM, "subscription"))
    expected = answers.join(F.broadcast(subscriptions.distinct()), on=list(_ARM), how="inner")
    both = expected.join(received, on=[*_MESSAGE, "subscription"], how="left")
    stored, came = F.col("stored"), F.col("times").isNotNull()
    return both.groupBy(*_ARM, "subscription").agg(
        F.count(F.when(stored, 1)).alias("acknowledged"),
        F.count("times").alias("received"),
        F.count(F.when(stored & ~came, 1)).alias("lost"),
        F.sum(F.when(came, F.col("times") - 1).otherwise(0)).alias("duplicates"),
        F.count(F.when(F.col("late"), 1)).alias("reordered"),
        F.count(F.when(~stored & came, 1)).alias("told_refused"),
    )


def _answers(observations: DataFrame) -> DataFrame:
    told = observations.where(
        (F.col("role") == "producer") & F.col("event").isin("acknowledged", "refused", "failed")
    )
    return told.groupBy("system", "door", "topic", F.col("client").alias("producer"), "sequence").agg(
        F.bool_or(F.col("event") == "acknowledged").alias("stored")
    )


def _received(observations: DataFrame) -> DataFrame:
    deliveries = observations.where((F.col("role") == "consumer") & (F.col("event") == "received")).select(
        *_MESSAGE, "subscription", "client", "time"
    )
    again = Window.partitionBy(*_MESSAGE, "subscription").orderBy("time", "client")
    firsts = deliveries.withColumn("nth", F.row_number().over(again))
    at_consumer = Window.partitionBy(*_ARM, "subscription", "client", "producer").orderBy("time", "sequence")
    highest = F.max(F.when(F.col("nth") == 1, F.col("sequence"))).over(
        at_consumer.rowsBetween(Window.unboundedPreceding, -1)
    )
    late = (F.col("nth") == 1) & (F.col("sequence") < F.coalesce(highest, F.lit(-1)))
    return (
        firsts.withColumn("out_of_order", late)
        .groupBy(*_MESSAGE, "subscription")
        .agg(F.count("time").alias("times"), F.bool_or("out_of_order").alias("late"))
    )
