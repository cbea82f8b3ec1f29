"""The usual load of each topic and each principal: rates, counts and sizes."""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

TOPIC = ("system", "gateway", "namespace", "topic")
_ACCURACY = 10_000
_SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
MEASURES = (*_SHARES, "peak")


def rates(decisions: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Percentiles of the demand of each second with any demand.

    Refused and dropped operations are included: otherwise a baseline under too low a limit would confirm it.
    Held operations count when they passed, a window of a summary in the second in which it began.

    :param decisions: a decision log.
    :param keys: columns to group by, besides `operation`.
    :return: keys, `operation`, `seconds`, `first_s` and `last_s` (since 1970), and of `messages` and
        `bytes` each `_p50`, `_p95`, `_p99`, `_peak`.
    """
    by = (*keys, "operation")
    asked = decisions.where(
        F.col("operation").isin("publish", "dispatch")
        & F.col("action").isin("allow", "rewrite", "reject", "drop")
    )
    seconds = asked.groupBy(*by, F.date_trunc("second", "time").alias("second")).agg(
        F.sum("messages").alias("messages"), F.sum("bytes").alias("bytes")
    )
    return seconds.groupBy(*by).agg(
        F.count("*").alias("seconds"),
        F.unix_seconds(F.min("second")).alias("first_s"),
        F.unix_seconds(F.max("second")).alias("last_s"),
        *_percentiles("messages"),
        *_percentiles("bytes"),
    )


def topics(decisions: DataFrame) -> DataFrame:
    """Names of all topics in a log; `topic` is the only column."""
    return decisions.where(F.col("topic").isNotNull()).select("topic").distinct()


def busiest(of_principals: DataFrame, most: int) -> DataFrame:
    """The rows with the highest p99 of messages of each topic, at most `most`.

    :param of_principals: what `rates` gives for TOPIC and `principal`; rows without a principal come last.
    """
    order = Window.partitionBy(*TOPIC).orderBy(
        F.col("principal").isNull(), F.desc("messages_p99"), "principal", "operation"
    )
    return (
        of_principals.withColumn("place", F.row_number().over(order))
        .where(F.col("place") <= most)
        .drop("place")
    )


def sizes(decisions: DataFrame) -> DataFrame:
    """Mean message size of each publish; exact for single messages.

    :return: TOPIC, `size_p50`, `size_p95`, `size_p99`, `size_peak` in bytes; topics whose allows are only
        known in windows have no row, as their largest message is not known.
    """
    single = decisions.where(
        (F.col("operation") == "publish") & (F.col("window") == 0) & (F.col("messages") > 0)
    ).where(F.col("action") == "allow")
    each = single.select(*TOPIC, F.ceil(F.col("bytes") / F.col("messages")).alias("size"))
    return each.groupBy(*TOPIC).agg(*_percentiles("size"))


def counts(decisions: DataFrame) -> DataFrame:
    """The most clients active in one minute; the log does not record when they leave.

    :return: TOPIC, `producers`, `consumers`, `subscriptions` (all that were seen), `subscription_consumers`
        (of one subscription); topics whose clients are not told have no row.
    """
    told = decisions.where(
        F.col("client").isNotNull()
        & (F.col("window") == 0)
        & (F.col("action") == "allow")
        & F.col("operation").isin("publish", "dispatch", "attach_producer", "attach_consumer")
    )
    produces = F.col("operation").isin("publish", "attach_producer")
    minute = F.date_trunc("minute", "time").alias("minute")
    minutes = told.groupBy(*TOPIC, minute).agg(
        F.countDistinct(F.when(produces, F.col("client"))).alias("producers"),
        F.countDistinct(F.when(~produces, F.struct("client", "subscription"))).alias("consumers"),
    )
    peaks = minutes.groupBy(*TOPIC).agg(
        F.max("producers").alias("producers"), F.max("consumers").alias("consumers")
    )
    subscribed = told.where(~produces & F.col("subscription").isNotNull())
    of_one = subscribed.groupBy(*TOPIC, "subscription", minute).agg(
        F.countDistinct("client").alias("clients")
    )
    of_all = of_one.groupBy(*TOPIC).agg(
        F.countDistinct("subscription").alias("subscriptions"),
        F.max("clients").alias("subscription_consumers"),
    )
    return peaks.join(of_all, list(TOPIC), "left").na.fill(0)


def _percentiles(name: str) -> list[Column]:
    found = [F.percentile_approx(name, p, _ACCURACY).alias(f"{name}_{label}") for label, p in _SHARES.items()]
    return [*found, F.max(name).alias(f"{name}_peak")]
