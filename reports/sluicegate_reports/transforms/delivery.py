"""What became of messages: lost, not read in time, doubled, out of order, or delivered though refused."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from sluicegate_reports.registry import systems

_ARM = ("system", "door", "topic")
_MESSAGE = (*_ARM, "producer", "sequence")
COUNTS = (
    *("acknowledged", "received", "lost", "unread", "duplicates", "reordered"),
    *("told_refused", "told_nothing"),
)


def delivery(observations: DataFrame, idle_s: float = 1.0, ends: DataFrame | None = None) -> DataFrame:
    """Compare what producers were told with what each subscription got.

    Order is that of one producer at one consumer, first deliveries only; topics have one partition. Where
    each message is a call of its own, one that was sent before another was answered may overtake it. What a
    subscription that began late could not get counts as lost: scenarios attach consumers first.

    A message that did not come is lost if a later one of its producer came, or if nothing came any more: the
    consumers of its arm read on for `idle_s`, three mean gaps and the longest way of any message after it.
    Otherwise nobody knows, and it is unread.

    :param observations: columns of the observations.
    :param idle_s: for so long at least they have to read on.
    :param ends: see `lanes.ends`; an arm that it lacks was read until its last observation.
    :return: for each `system`, `door`, `topic`, `phase` in which messages were sent, and `subscription` that
        a consumer had: `acknowledged` (messages that producers were told to be stored), `received`
        (different messages), `lost`, `unread`, `duplicates` (deliveries too many), `reordered`,
        `told_refused` (received, though refused), `told_nothing` (received, and the answer did not tell).
    """
    answers = _answers(observations)
    received = _received(observations)
    # One that attached and got nothing lost everything: what was received alone would not tell of it.
    attached = observations.where((F.col("role") == "consumer") & (F.col("event") == "attached"))
    subscriptions = received.select(*_ARM, "subscription").union(attached.select(*_ARM, "subscription"))
    expected = answers.join(F.broadcast(subscriptions.distinct()), on=list(_ARM), how="inner")
    both = expected.join(received, on=[*_MESSAGE, "subscription"], how="left")
    told = both.join(F.broadcast(_ends(observations, ends)), on=["system", "door"], how="inner")
    missed = F.col("stored") & F.col("times").isNull()
    lost = F.coalesce(_lost(idle_s * 1e6), F.lit(False))
    came = F.col("times").isNotNull()
    beside = F.col("system").isin(_calls()) & (F.col("ahead_us") < F.col("told_us"))
    return (
        told.withColumn("gone", missed & lost)
        .withColumn("perhaps", missed & ~lost)
        .groupBy(*_ARM, "phase", "subscription")
        .agg(
            F.count(F.when(F.col("stored"), 1)).alias("acknowledged"),
            F.count("times").alias("received"),
            F.count(F.when(F.col("gone"), 1)).alias("lost"),
            F.count(F.when(F.col("perhaps"), 1)).alias("unread"),
            F.sum(F.when(came, F.col("times") - 1).otherwise(0)).alias("duplicates"),
            F.count(F.when(F.col("late") & ~F.coalesce(beside, F.lit(False)), 1)).alias("reordered"),
            F.count(F.when(F.col("refused") & came, 1)).alias("told_refused"),
            F.count(F.when(~F.col("stored") & ~F.col("refused") & came, 1)).alias("told_nothing"),
        )
    )


def _calls() -> list[str]:
    """Systems where two messages that are under way at once have no order."""
    return [system.name for system in systems().values() if system.unordered_calls]


def _ends(observations: DataFrame, told: DataFrame | None) -> DataFrame:
    """Until when each arm was read; what came later than its run says was read too."""
    at_us = F.unix_micros("time")
    seen = observations.groupBy("system", "door").agg(
        F.max(at_us).alias("last_us"), F.max(F.when(F.col("event") == "received", at_us)).alias("read_us")
    )
    if told is None:
        return seen.select("system", "door", F.col("last_us").alias("end_us"))
    both = seen.join(F.broadcast(told), on=["system", "door"], how="left")
    end_us = F.when(F.col("told_end_us").isNull(), F.col("last_us")).otherwise(
        F.greatest("told_end_us", "read_us")
    )
    return both.select("system", "door", end_us.alias("end_us"))


def _lost(idle_us: float) -> Column:
    """Whether one that did not come would have, had it not been lost."""
    here = Window.partitionBy(*_ARM, "subscription")
    of_producer = Window.partitionBy(*_ARM, "subscription", "producer").orderBy(F.desc("sequence"))
    came_us = F.col("came_us")
    count = F.count(came_us).over(here)
    last_us = F.max(came_us).over(here)
    gap_us = (last_us - F.min(came_us).over(here)) / F.greatest(count - 1, F.lit(1))
    way_us = F.max(came_us - F.col("told_us")).over(here)
    quiet_us = F.greatest(F.lit(idle_us), 3 * gap_us, way_us)
    overtaken_us = F.min(came_us).over(of_producer.rowsBetween(Window.unboundedPreceding, -1))
    due_us = F.col("told_us") + F.coalesce("delay_ms", F.lit(0)) * 1_000
    end_us = F.col("end_us")
    overtaken = overtaken_us.isNotNull() & (F.greatest(overtaken_us, due_us) + idle_us <= end_us)
    # Where nothing came at all, last_us is null, and `greatest` passes it over.
    return overtaken | (F.greatest(last_us, due_us) + quiet_us <= end_us)


def _answers(observations: DataFrame) -> DataFrame:
    told = observations.where(
        (F.col("role") == "producer") & F.col("event").isin("acknowledged", "refused", "failed")
    )
    return told.groupBy("system", "door", "topic", F.col("client").alias("producer"), "sequence").agg(
        F.min("scenario").alias("phase"),
        F.bool_or(F.col("event") == "acknowledged").alias("stored"),
        (F.bool_or(F.col("event") == "refused") & ~F.bool_or(F.col("event") == "acknowledged")).alias(
            "refused"
        ),
        F.max(F.unix_micros("time")).alias("told_us"),
        F.max("delay_ms").alias("delay_ms"),
    )


def _received(observations: DataFrame) -> DataFrame:
    deliveries = observations.where((F.col("role") == "consumer") & (F.col("event") == "received")).select(
        *_MESSAGE, "subscription", "client", "time", "published"
    )
    again = Window.partitionBy(*_MESSAGE, "subscription").orderBy("time", "client")
    firsts = deliveries.withColumn("nth", F.row_number().over(again))
    at_consumer = Window.partitionBy(*_ARM, "subscription", "client", "producer").orderBy("time", "sequence")
    before = at_consumer.rowsBetween(Window.unboundedPreceding, -1)
    is_first = F.col("nth") == 1
    highest = F.max(F.when(is_first, F.col("sequence"))).over(before)
    ahead_us = F.max(F.when(is_first, F.unix_micros("published"))).over(before)
    late = is_first & (F.col("sequence") < F.coalesce(highest, F.lit(-1)))
    return (
        firsts.withColumn("out_of_order", late)
        .withColumn("ahead_us", F.when(late, ahead_us))
        .groupBy(*_MESSAGE, "subscription")
        .agg(
            F.count("time").alias("times"),
            F.bool_or("out_of_order").alias("late"),
            F.max("ahead_us").alias("ahead_us"),
            F.min(F.unix_micros("time")).alias("came_us"),
        )
    )
