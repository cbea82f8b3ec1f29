"""Limits on how many may be attached: who was let in and who was not, against how many there were."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

_OF_PRODUCERS = "max_producers_per_topic"
_OF_SUBSCRIPTIONS = "max_subscriptions_per_topic"
_OF_ONE_SUBSCRIPTION = "max_consumers_per_subscription"


def attachments(observations: DataFrame, tries: DataFrame) -> DataFrame:
    """Judge each attempt by how many were attached just before it, as the clients saw it.

    A subscription counts from its first consumer on and stays; producers and consumers count until they
    leave.

    :param observations: columns of the observations.
    :param tries: see `lanes.tries`, of counts.
    :return: `trial`, `attempts`, `attached`, `refused`, `most` (at once), `wrongly_admitted`,
        `wrongly_refused`.
    """
    rows = _events(observations, tries)
    group = Window.partitionBy("trial", "group").orderBy("time_us", "change")
    before = F.coalesce(F.sum("change").over(group.rowsBetween(Window.unboundedPreceding, -1)), F.lit(0))
    judged = rows.withColumn("before", before).where(F.col("time_us") >= F.col("begin_us"))
    attached, refused = F.col("event") == "attached", F.col("event") == "attach_refused"
    full = F.col("before") >= F.col("limit")
    return judged.groupBy("trial").agg(
        F.count(F.when(attached | refused, 1)).alias("attempts"),
        F.count(F.when(attached, 1)).alias("attached"),
        F.count(F.when(refused, 1)).alias("refused"),
        F.max(F.col("before") + F.col("change")).cast("bigint").alias("most"),
        F.count(F.when(attached & full, 1)).alias("wrongly_admitted"),
        F.count(F.when(refused & ~full, 1)).alias("wrongly_refused"),
    )


def _events(observations: DataFrame, tries: DataFrame) -> DataFrame:
    seen = observations.where(F.col("event").isin("attached", "attach_refused", "detached")).select(
        "system",
        "door",
        "topic",
        "role",
        "client",
        F.col("subscription").alias("of_subscription"),
        "event",
        F.unix_micros("time").alias("time_us"),
    )
    role = F.when(F.col("policy") == _OF_PRODUCERS, "producer").otherwise("consumer")
    whose = F.col("subscription").isNull() | (F.col("subscription") == F.col("of_subscription"))
    rows = (
        seen.join(F.broadcast(tries), on=["system", "door", "topic"], how="inner")
        .where((F.col("role") == role) & whose & (F.col("time_us") < F.col("end_us")))
        .withColumn("group", F.when(F.col("policy") == _OF_ONE_SUBSCRIPTION, F.col("of_subscription")))
    )
    return _without_known_subscriptions(rows).withColumn("change", _change())


def _without_known_subscriptions(rows: DataFrame) -> DataFrame:
    """Whoever joins or leaves a subscription that exists has nothing to do with their number."""
    one = Window.partitionBy("trial", "of_subscription").orderBy("time_us")
    exists = F.coalesce(
        F.max((F.col("event") == "attached").cast("int")).over(
            one.rowsBetween(Window.unboundedPreceding, -1)
        ),
        F.lit(0),
    )
    of_subscriptions = F.col("policy") == _OF_SUBSCRIPTIONS
    beside = of_subscriptions & ((F.col("exists") == 1) | (F.col("event") == "detached"))
    return rows.withColumn("exists", exists).where(~beside)


def _change() -> Column:
    event = F.col("event")
    return F.when(event == "attached", 1).when(event == "detached", -1).otherwise(0)
