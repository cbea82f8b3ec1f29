"""The demand in a decision log: one row for each operation, or window of operations.

Each row identifies client and kind of operation by a number: nine texts in each row would cost more to move
and to hand to Python than all else together. A row before all others of its topic maps the number to the
texts. A collision of two numbers is to be expected once in 10^17 logs of ten clients on a topic.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sluicegate_reports.replaying.marks import WHO, Mark
from sluicegate_reports.spark.small import small

_PARTITIONS = 32
"""Partitions over which topics are spread. Spark would coalesce them to about the number of cores, and then
wait for the longest; more would leave tasks without a topic."""
_BATCH_ROWS = 10_000
_FIRST, _LAST = -(1 << 63), (1 << 63) - 1
_SECOND_US = 1_000_000
TOPIC_COLUMNS = ("system", "door", "gateway", "namespace", "topic")
"""The columns that identify a topic."""


def demand(
    decisions: DataFrame, *, counts: bool, unacked: bool, starts: Mapping[int, Sequence[int]] | None = None
) -> DataFrame:
    """Rows to replay in order of time, with each topic, or each of its slices, in one partition.

    Observe-only rows are left out: another row records what was done. Rows of the same microsecond keep the
    order of their file.

    :param decisions: a decision log.
    :param counts: whether attachments are included; clients then leave after their last row.
    :param unacked: whether acknowledgements are included.
    :param starts: where the slices of a topic begin, see `cutting.Cuts`; none if all are whole.
    """
    asked = _asked(decisions, counts=counts, unacked=unacked)
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
    group = ["topic_id"]
    if starts:
        group.append("slice")
        numbered, names = _sliced(numbered, names, starts)
    return (
        numbered.unionByName(names)
        .repartition(_PARTITIONS, *group)
        .sortWithinPartitions("at_us", "order")
        .drop(*group, "order")
    )


def seconds(
    decisions: DataFrame, least_rows: int, *, counts: bool, unacked: bool
) -> Iterator[dict[str, Any]]:
    """The seconds of topics with many rows, by kind of operation, each topic's in order of time.

    :param least_rows: of a topic.
    :param counts: as for `demand`; so is `unacked`.
    :return: the topic and its number as `topic_id`, operation, `first_us` and `last_us`, rows, messages,
        bytes, the most of one row, and how many rows were held, or are of windows.
    """
    asked = _asked(decisions, counts=counts, unacked=unacked).withColumn("topic_id", _hash(TOPIC_COLUMNS))
    many = asked.groupBy("topic_id").count().where(F.col("count") >= least_rows).collect()
    if not many:
        return
    at_us = F.unix_micros("time")
    by = ("topic_id", *TOPIC_COLUMNS, "operation")
    by_second = asked.where(F.col("topic_id").isin([row["topic_id"] for row in many])).groupBy(
        *by, (at_us / _SECOND_US).cast("long").alias("second")
    )
    sums = by_second.agg(
        F.min(at_us).alias("first_us"),
        F.max(at_us).alias("last_us"),
        F.count("*").alias("rows"),
        *(F.sum(name).alias(name) for name in ("messages", "bytes")),
        *(F.max(name).alias(f"most_{name}") for name in ("messages", "bytes")),
        F.count_if(F.col("action") == "delay").alias("held"),
        F.count_if(F.col("window") > 0).alias("windows"),
    )
    table = sums.toArrow().sort_by([("topic_id", "ascending"), ("first_us", "ascending")])
    for batch in table.to_batches(max_chunksize=_BATCH_ROWS):
        yield from batch.to_pylist()


def _asked(decisions: DataFrame, *, counts: bool, unacked: bool) -> DataFrame:
    """The rows of what is replayed."""
    kinds = ["publish", "dispatch"]
    if counts:
        kinds += ["attach_producer", "create_subscription", "attach_consumer"]
    if unacked:
        kinds.append("acknowledge")
    return decisions.where(F.col("operation").isin(kinds) & ~F.col("action").startswith("would_"))


def _sliced(
    rows: DataFrame, names: DataFrame, starts: Mapping[int, Sequence[int]]
) -> tuple[DataFrame, DataFrame]:
    """Number the slices of topics: each row is in one, and names are in all."""
    rows_ = [(topic_id, list(at_us)) for topic_id, at_us in starts.items()]
    begun = F.broadcast(small(rows.sparkSession, rows_, "topic_id bigint, starts array<bigint>"))
    number = F.size(F.filter("starts", lambda start: start <= F.col("at_us")))
    every = F.explode(F.sequence(F.lit(0), F.size("starts")))
    return (
        _with_starts(rows, begun).withColumn("slice", number).drop("starts"),
        _with_starts(names, begun).withColumn("slice", every).drop("starts"),
    )


def _with_starts(rows: DataFrame, begun: DataFrame) -> DataFrame:
    none = F.array().cast("array<bigint>")
    return rows.join(begun, "topic_id", "left").withColumn("starts", F.coalesce("starts", none))


def _hash(columns: Sequence[str]) -> Column:
    """A number for these texts. The hash skips nulls, so `a, null` and `null, a` would be equal."""
    return F.xxhash64(*(F.coalesce(name, F.lit("\0")) for name in columns))


def _numbered(rows: DataFrame, names: Column) -> DataFrame:
    """Replace the topic, and client with kind of operation, by numbers."""
    others = [name for name in rows.columns if name not in WHO]
    return rows.select(
        _hash(TOPIC_COLUMNS).alias("topic_id"), _hash(WHO).alias("who"), *others, names.alias("names")
    )


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
    last = seen.groupBy(*TOPIC_COLUMNS, "principal", "client", "subscription").agg(
        F.max("time").alias("last")
    )
    who = last.withColumn("operation", F.lit("detach"))
    return _row(who, Mark.LEFT, F.unix_micros("last"), _LAST)
