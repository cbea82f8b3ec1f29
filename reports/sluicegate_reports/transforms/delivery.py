"""Delivery of messages: lost, not read in time, doubled, out of order, or delivered though refused.

Messages are numbers only until all is counted: hashes of 64 bits stand for the texts of a topic, a producer,
a subscription and a consumer. That two are equal by chance has to be expected once in 10^17 topics. The rows
of a producer at a subscription are exchanged once, and come to one task, which counts them.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from sluicegate_reports.registry import systems

_ARM = ("system", "door", "topic")
_STREAM = ("stream", "reader")
"""A producer on a topic, and a subscription of that topic."""
COUNTS = (
    *("acknowledged", "received", "lost", "unread", "duplicates", "reordered"),
    *("told_refused", "told_nothing"),
)
_SUMS = ("acknowledged", "received", "duplicates", "reordered", "told_refused", "told_nothing")


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
    places = _places(observations).localCheckpoint()
    readers = _readers(places, ends)
    rows = _rows(observations).join(
        F.broadcast(readers.select("place", F.col("reader").alias("of"))),
        on="place",
        how="inner",
    )
    # What a producer was told is set against each subscription, what came belongs to one.
    mine = rows.where(F.col("reader").isNull() | (F.col("reader") == F.col("of"))).withColumn(
        "reader", F.col("of")
    )
    messages = _in_order(_messages(mine.drop("of"))).where(F.col("answers") > 0)
    bounds = readers.select("place", "reader", "end_us", F.col("system").isin(_calls()).alias("calls"))
    told = messages.join(F.broadcast(bounds), on=["place", "reader"], how="inner")
    counted = _counted(told, idle_s * 1e6)
    names = readers.select("place", "reader", *_ARM, "subscription")
    phases = places.select(_place(), _hash("phase").alias("phase_key"), "phase").distinct()
    return (
        counted.join(F.broadcast(names), on=["place", "reader"], how="inner")
        .join(F.broadcast(phases), on=["place", "phase_key"], how="inner")
        .select(*_ARM, "phase", "subscription", *COUNTS)
    )


def _place() -> Column:
    return F.xxhash64(*_ARM).alias("place")


def _hash(name: str) -> Column:
    return F.xxhash64(name)


def _places(observations: DataFrame) -> DataFrame:
    """The topics with their phases and subscriptions, and when the last was seen of them."""
    at_us, received = F.unix_micros("time"), F.col("event") == "received"
    # One that attached and got nothing lost everything: what was received alone would not tell of it.
    reads = (F.col("role") == "consumer") & F.col("event").isin("received", "attached")
    return observations.groupBy(
        *_ARM,
        F.col("scenario").alias("phase"),
        reads.alias("reads"),
        F.when(reads, F.col("subscription")).alias("subscription"),
    ).agg(F.max(at_us).alias("last_us"), F.max(F.when(received, at_us)).alias("read_us"))


def _readers(places: DataFrame, told: DataFrame | None) -> DataFrame:
    """The subscriptions of each topic: `place`, `reader`, their names, and until when they were read."""
    read = places.where("reads").select(*_ARM, "subscription").distinct()
    return read.join(F.broadcast(_ends(places, told)), on=["system", "door"], how="inner").select(
        _place(), _hash("subscription").alias("reader"), *_ARM, "subscription", "end_us"
    )


def _calls() -> list[str]:
    """Systems where two messages that are under way at once have no order."""
    return [system.name for system in systems().values() if system.unordered_calls]


def _ends(places: DataFrame, told: DataFrame | None) -> DataFrame:
    """Until when each arm was read; what came later than its run says was read too."""
    seen = places.groupBy("system", "door").agg(
        F.max("last_us").alias("last_us"), F.max("read_us").alias("read_us")
    )
    if told is None:
        return seen.select("system", "door", F.col("last_us").alias("end_us"))
    both = seen.join(F.broadcast(told), on=["system", "door"], how="left")
    end_us = F.when(F.col("told_end_us").isNull(), F.col("last_us")).otherwise(
        F.greatest("told_end_us", "read_us")
    )
    return both.select("system", "door", end_us.alias("end_us"))


def _rows(observations: DataFrame) -> DataFrame:
    """What producers were told and what consumers got, as numbers; `reader` is null of producers."""
    event, of_producer = F.col("event"), F.col("role") == "producer"
    answered = of_producer & event.isin("acknowledged", "refused", "failed")
    came = (F.col("role") == "consumer") & (event == "received")
    known = F.col("producer").isNotNull() & F.col("sequence").isNotNull()
    at_us = F.unix_micros("time")
    return observations.where(answered | (came & known)).select(
        _place(),
        F.xxhash64(*_ARM, F.when(of_producer, F.col("client")).otherwise(F.col("producer"))).alias("stream"),
        F.when(~of_producer, _hash("subscription")).alias("reader"),
        "sequence",
        F.when(of_producer, _hash("scenario")).alias("phase_key"),
        F.when(of_producer, event == "acknowledged").cast("int").alias("stored"),
        F.when(of_producer, event == "refused").cast("int").alias("refused"),
        F.when(of_producer, at_us).alias("told_us"),
        F.when(of_producer, F.col("delay_ms")).alias("delay_ms"),
        F.when(~of_producer, at_us).alias("came_us"),
        F.when(~of_producer, _hash("client")).alias("consumer"),
        F.when(~of_producer, F.unix_micros("published")).alias("published_us"),
    )


def _messages(rows: DataFrame) -> DataFrame:
    """Each message at each subscription: what its producer was told, and its first delivery."""
    first = "came_us"
    return (
        rows.repartition(*_STREAM)
        .groupBy("place", *_STREAM, "sequence")
        .agg(
            F.count("told_us").alias("answers"),
            F.min("phase_key").alias("phase_key"),
            F.coalesce(F.max("stored") == 1, F.lit(False)).alias("stored"),
            F.coalesce((F.max("refused") == 1) & (F.max("stored") == 0), F.lit(False)).alias("refused"),
            F.max("told_us").alias("told_us"),
            F.max("delay_ms").alias("delay_ms"),
            F.count(first).alias("times"),
            F.min(first).alias(first),
            F.min_by("consumer", first).alias("consumer"),
            F.min_by("published_us", first).alias("published_us"),
        )
    )


def _in_order(messages: DataFrame) -> DataFrame:
    """Which of them came after a later one, and when the first of the later ones of a message came."""
    at_consumer = Window.partitionBy(*_STREAM, "consumer").orderBy("came_us", "sequence")
    before = at_consumer.rowsBetween(Window.unboundedPreceding, -1)
    later = (
        Window.partitionBy(*_STREAM).orderBy(F.desc("sequence")).rowsBetween(Window.unboundedPreceding, -1)
    )
    came = F.col("came_us").isNotNull()
    return (
        messages.withColumn("highest", F.max("sequence").over(before))
        .withColumn("ahead_us", F.max("published_us").over(before))
        .withColumn("late", came & (F.col("sequence") < F.coalesce("highest", F.lit(-1))))
        .withColumn("overtaken_us", F.min(F.when(F.col("answers") > 0, F.col("came_us"))).over(later))
        .drop("highest", "consumer", "published_us")
    )


def _counted(messages: DataFrame, idle_us: float) -> DataFrame:
    """The counts of each topic, phase and subscription.

    Whether one that did not come would have, had it not been lost, depends on all others of its subscription
    unless a later one came: only those are kept one by one until that is known.
    """
    came, stored, refused = F.col("times") > 0, F.col("stored"), F.col("refused")
    due_us = F.col("told_us") + F.coalesce("delay_ms", F.lit(0)) * 1_000
    passed = F.greatest("overtaken_us", due_us) + idle_us <= F.col("end_us")
    overtaken = F.coalesce(F.col("overtaken_us").isNotNull() & passed, F.lit(False))
    beside = F.coalesce(F.col("calls") & (F.col("ahead_us") < F.col("told_us")), F.lit(False))
    open_us = F.when(stored & ~came & ~overtaken, due_us)
    counted = messages.groupBy("place", "reader", "phase_key", open_us.alias("open_us")).agg(
        F.count(F.when(stored, 1)).alias("acknowledged"),
        F.count(F.when(came, 1)).alias("received"),
        F.count(F.when(stored & ~came & overtaken, 1)).alias("gone"),
        F.count(F.when(stored & ~came & ~overtaken, 1)).alias("open"),
        F.sum(F.when(came, F.col("times") - 1).otherwise(0)).alias("duplicates"),
        F.count(F.when(F.col("late") & ~beside, 1)).alias("reordered"),
        F.count(F.when(refused & came, 1)).alias("told_refused"),
        F.count(F.when(~stored & ~refused & came, 1)).alias("told_nothing"),
        F.min("came_us").alias("first_us"),
        F.max("came_us").alias("last_us"),
        F.max(F.col("came_us") - F.col("told_us")).alias("way_us"),
        F.max("end_us").alias("end_us"),
    )
    lost = F.coalesce(_quiet(idle_us), F.lit(False))
    return (
        counted.withColumn("quiet", lost)
        .groupBy("place", "reader", "phase_key")
        .agg(
            *(F.sum(name).alias(name) for name in _SUMS),
            F.sum(F.col("gone") + F.when(F.col("quiet"), F.col("open")).otherwise(0)).alias("lost"),
            F.sum(F.when(~F.col("quiet"), F.col("open")).otherwise(0)).alias("unread"),
        )
    )


def _quiet(idle_us: float) -> Column:
    """Whether nothing came any more for so long that what had not come by then was lost."""
    here = Window.partitionBy("place", "reader")
    count, last_us = F.sum("received").over(here), F.max("last_us").over(here)
    gap_us = (last_us - F.min("first_us").over(here)) / F.greatest(count - 1, F.lit(1))
    quiet_us = F.greatest(F.lit(idle_us), 3 * gap_us, F.max("way_us").over(here))
    # Where nothing came at all, last_us is null, and `greatest` passes it over.
    return F.greatest(last_us, F.col("open_us")) + quiet_us <= F.col("end_us")
