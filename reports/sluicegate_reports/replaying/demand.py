"""The demand in a decision log: one row for each operation, or window of operations.

Each row identifies client and kind of operation by a number: nine texts in each row would cost more to move
and to hand to Python than all else together. A row before all others of its topic maps the number to the
texts. A collision of two numbers is to be expected once in 10^17 logs of ten clients on a topic.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sluicegate_reports.replaying.marks import WHO, Mark

_PARTITIONS = 32
"""Partitions over which topics are spread. Spark would coalesce them to about the number of cores, and then
wait for the longest; more would leave tasks without a topic."""
_FIRST, _LAST = -(1 << 63), (1 << 63) - 1
_PLACE = ("system", "door", "gateway", "namespace", "topic")


def demand(decisions: DataFrame, *, counts: bool, unacked: bool) -> DataFrame:
    """Rows to replay in order of time, with each topic in one partition.

    Observe-only rows are left out: another row records what was done. Rows of the same microsecond keep the
    order of their file.

    :param decisions: a decision log.
    :param counts: whether attachments are included; clients then leave after their last row.
    :param unacked: whether acknowledgements are included.
    """
    kinds = ["publish", "dispatch"]
    if counts:
        kinds += ["attach_producer", "create_subscription", "attach_consumer"]
    if unacked:
        kinds.append("acknowledge")
    asked = decisions.where(F.col("operation").isin(kinds) & ~F.col("action").startswith("would_"))
    rows = asked.select(
        *WHO,
        F.unix_micros("time").alias("at_us"),
        "messages",
        "bytes",
        _largest().alias("largest"),
        _mark().alias("mark"),
        F.col("decisions").alias("operations"),
        F.monotonically_increasing_id().alias("order"),
    )
    who = asked.select(*WHO)
    if counts:
        left = _left(asked)
        rows = rows.unionByName(left)
        who = who.unionByName(left.select(*WHO))
    numbered = _numbered(rows, F.lit(None).cast("string"))
    names = _numbered(_row(who.distinct(), Mark.NAMES, F.lit(_FIRST), _FIRST), F.to_json(F.struct(*WHO)))
    return (
        numbered.unionByName(names)
        .repartition(_PARTITIONS, "place")
        .sortWithinPartitions("at_us", "order")
        .drop("place", "order")
    )


def _numbered(rows: DataFrame, names: Column) -> DataFrame:
    """Replace the topic, and client with kind of operation, by numbers."""
    # The hash skips nulls, so `a, null` and `null, a` would be equal.
    place, who = (
        F.xxhash64(*(F.coalesce(name, F.lit("\0")) for name in columns)) for columns in (_PLACE, WHO)
    )
    others = [name for name in rows.columns if name not in WHO]
    return rows.select(place.alias("place"), who.alias("who"), *others, names.alias("names"))


def _row(who: DataFrame, mark: Mark, at_us: Column, order: int) -> DataFrame:
    """Rows that are not operations."""
    nothing = F.lit(0).cast("long")
    return who.select(
        *WHO,
        at_us.alias("at_us"),
        nothing.alias("messages"),
        nothing.alias("bytes"),
        nothing.alias("largest"),
        F.lit(int(mark)).alias("mark"),
        nothing.alias("operations"),
        F.lit(order).cast("long").alias("order"),
    )


def _largest() -> Column:
    """Bytes of the largest message, as far as known; for a batch, the mean as a lower bound."""
    mean = F.ceil(F.col("bytes") / F.greatest("messages", F.lit(1)))
    return F.when(F.col("policy") == "max_message_size", F.col("current").cast("long")).otherwise(mean)


def _mark() -> Column:
    action = F.col("action")
    return (
        F.when(F.col("window") > 0, int(Mark.WINDOW))
        .when(action == "delay", int(Mark.HELD))
        .when(action == "reject", int(Mark.REFUSED))
        .when(action == "drop", int(Mark.DROPPED))
        .when(F.col("operation").isin("publish", "dispatch"), int(Mark.PLAIN))
        .otherwise(int(Mark.OTHER))
    )


def _left(asked: DataFrame) -> DataFrame:
    """The last time at which each client was seen, for each of its subscriptions."""
    seen = asked.where((F.col("window") == 0) & F.col("client").isNotNull())
    last = seen.groupBy(*_PLACE, "principal", "client", "subscription").agg(F.max("time").alias("last"))
    who = last.withColumn("operation", F.lit("detach"))
    return _row(who, Mark.LEFT, F.unix_micros("last"), _LAST)
