"""What was asked, out of a decision log: one row for each operation, or window of operations."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sluicegate_reports.replaying.marks import Mark

_PARTITIONS = 32
"""Topics are spread over so many. Spark would join small ones to about as many as there are cores, and the
longest would then be waited for; more would have tasks that find no topic."""
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
        *_PLACE,
        "principal",
        "client",
        "operation",
        "subscription",
        F.unix_micros("time").alias("at_us"),
        "messages",
        "bytes",
        _largest().alias("largest"),
        _mark().alias("mark"),
        F.col("decisions").alias("operations"),
        F.monotonically_increasing_id().alias("order"),
    )
    if counts:
        rows = rows.unionByName(_left(asked))
    return rows.repartition(_PARTITIONS, *_PLACE).sortWithinPartitions("at_us", "order")


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
    nothing = F.lit(0).cast("long")
    return last.select(
        *_PLACE,
        "principal",
        "client",
        F.lit("detach").alias("operation"),
        "subscription",
        F.unix_micros("last").alias("at_us"),
        nothing.alias("messages"),
        nothing.alias("bytes"),
        nothing.alias("largest"),
        F.lit(int(Mark.LEFT)).alias("mark"),
        nothing.alias("operations"),
        F.lit((1 << 63) - 1).alias("order"),
    )
