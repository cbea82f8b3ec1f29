"""The demand in a decision log: one row for each operation, or window of operations.

A row says by a number who asks for what: nine texts in each row would cost more to move and to hand to Python
than all else together. Who stands behind a number is told once, by a row that comes before all others of its
topic. That two get one number by chance has to be expected once in 10^17 logs of ten clients on a topic.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sluicegate_reports.replaying.marks import WHO, Mark

_PARTITIONS = 32
"""Topics are spread over so many. Spark would join small ones to about as many as there are cores, and the
longest would then be waited for; more would have tasks that find no topic."""
_FIRST, _LAST = -(1 << 63), (1 << 63) - 1
_PLACE = ("system", "door", "gateway", "namespace", "topic")


def demand(decisions: DataFrame, *, counts: bool, unacked: bool) -> DataFrame:
    """Rows to walk through: the topics of a partition in it whole, in order of time.

    What was only observed is left out: a further row tells what was done. Rows of the same microsecond
    keep the order of their file.

    :param decisions: a decision log.
    :param counts: whether attachments are asked for; then clients leave after their last row.
    :param unacked: whether acknowledgements are.
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
    """The topic, and the client and kind of operation, as numbers."""
    # A null would be skipped, so that `a, null` and `null, a` were the same.
    place, who = (
        F.xxhash64(*(F.coalesce(name, F.lit("\0")) for name in columns)) for columns in (_PLACE, WHO)
    )
    others = [name for name in rows.columns if name not in WHO]
    return rows.select(place.alias("place"), who.alias("who"), *others, names.alias("names"))


def _row(who: DataFrame, mark: Mark, at_us: Column, order: int) -> DataFrame:
    """Rows that stand for no operation."""
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
    """Bytes of the largest message as far as known: of a batch at least the mean."""
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
    """When each client was seen for the last time, with each of its subscriptions."""
    seen = asked.where((F.col("window") == 0) & F.col("client").isNotNull())
    last = seen.groupBy(*_PLACE, "principal", "client", "subscription").agg(F.max("time").alias("last"))
    who = last.withColumn("operation", F.lit("detach"))
    return _row(who, Mark.LEFT, F.unix_micros("last"), _LAST)
