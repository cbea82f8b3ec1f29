"""Limits on single messages: larger ones must be refused, others must pass."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

_ADDED = ("above", "failed", "up_to", "refused", "otherwise", "wrongly_admitted", "wrongly_refused")


def messages(observations: DataFrame, tries: DataFrame, measure: str) -> DataFrame:
    """Judge each answer to a producer by what the message had and what the limit says.

    What is refused with another code than messages above the limit are is refused by another policy, rightly.

    :param observations: columns of the observations.
    :param tries: see `lanes.tries`, of sizes or of delays that producers ask for.
    :param measure: column that the limit is on: `bytes` or `delay_ms`, where null is none.
    :return: `trial`, `above` (answers about messages above the limit, and those that came without one),
        `failed` (messages above the limit that failed without an answer), `up_to` (answers about others),
        `refused`, `otherwise` (of them, with another code), `wrongly_admitted`, `wrongly_refused`,
        `largest_admitted`.
    """
    sent = observations.where(
        (F.col("role") == "producer") & F.col("event").isin("sent", "failed", "acknowledged", "refused")
    ).select(
        "system",
        "door",
        "topic",
        F.col("scenario").alias("phase"),
        "client",
        "sequence",
        "event",
        F.coalesce("code", F.lit("")).alias("code"),
        F.coalesce(F.col(measure), F.lit(0)).alias("value"),
    )
    judged = sent.join(F.broadcast(tries), on=["system", "door", "topic", "phase"], how="inner")
    untold = _delivered_untold(judged.where(F.col("value") > F.col("limit")), observations)
    answered = _answered(judged.where(F.col("event") != "sent"))
    both = answered.join(untold, on="trial", how="full").na.fill(0, [*_ADDED, "untold"])
    largest = F.greatest("largest_admitted", "largest_untold").alias("largest_admitted")
    added = [(F.col(name) + F.col("untold")).alias(name) for name in ("above", "wrongly_admitted")]
    return both.select("trial", *added, "failed", "up_to", "refused", "otherwise", "wrongly_refused", largest)


def _answered(judged: DataFrame) -> DataFrame:
    """The counts of `messages`, of what producers were told."""
    above, failed = F.col("value") > F.col("limit"), F.col("event") == "failed"
    admitted, refused = F.col("event") == "acknowledged", F.col("event") == "refused"
    by_limit = judged.where(above & refused).select("trial", "code", F.lit(True).alias("by_limit")).distinct()
    judged = judged.join(by_limit, on=["trial", "code"], how="left")
    return judged.groupBy("trial").agg(
        F.count(F.when(above & ~failed, 1)).alias("above"),
        F.count(F.when(above & failed, 1)).alias("failed"),
        F.count(F.when(~above & ~failed, 1)).alias("up_to"),
        F.count(F.when(refused, 1)).alias("refused"),
        F.count(F.when(refused & F.col("by_limit").isNull(), 1)).alias("otherwise"),
        F.count(F.when(above & admitted, 1)).alias("wrongly_admitted"),
        F.count(F.when(~above & refused & F.col("by_limit"), 1)).alias("wrongly_refused"),
        F.max(F.when(admitted, F.col("value"))).alias("largest_admitted"),
    )


def _delivered_untold(above: DataFrame, observations: DataFrame) -> DataFrame:
    """Messages above the limit that came although their producers got no answer, or none that tells.

    :return: `trial`, `untold`, `largest_untold`.
    """
    message = ("system", "door", "topic", "client", "sequence")
    answered = F.bool_or(F.col("event").isin("acknowledged", "refused"))
    unanswered = (
        above.groupBy("trial", *message)
        .agg(answered.alias("answered"), F.max("value").alias("value"))
        .where(~F.col("answered"))
    )
    came = (
        observations.where(F.col("event") == "received")
        .select("system", "door", "topic", F.col("producer").alias("client"), "sequence")
        .join(F.broadcast(unanswered), on=list(message), how="inner")
    )
    return (
        came.select("trial", *message, "value")
        .distinct()
        .groupBy("trial")
        .agg(F.count("value").alias("untold"), F.max("value").alias("largest_untold"))
    )


def unacked(observations: DataFrame, tries: DataFrame) -> DataFrame:
    """The most messages that a consumer had and had not acknowledged, as it saw it.

    A consumer takes down what it acknowledges before it tells the broker, so it never has more than the
    broker counts: what is above the limit here is above it there. A message that comes again counts once.

    :param observations: columns of the observations.
    :param tries: see `lanes.tries`, of unacknowledged messages.
    :return: `trial`, `consumers`, `received`, `acknowledged`, `most`, `left` (consumers that left), `untold`
        (consumers whose observations, of version 1, do not say whether they acknowledge).
    """
    told = F.col("event").isin("received", "acknowledged", "attached", "detached")
    rows = (
        observations.where((F.col("role") == "consumer") & told)
        .select(
            *("system", "door", "topic", "client", "time", "event", "producer", "sequence", "messages"),
            F.unix_micros("time").alias("time_us"),
            (F.col("acknowledges").isNotNull() | (F.col("event") == "acknowledged")).alias("told"),
        )
        .join(F.broadcast(tries), on=["system", "door", "topic"], how="inner")
        .where(F.col("time_us") < F.col("end_us"))
    )
    came, went = F.col("change") > 0, F.col("change") < 0
    return (
        _with_held(rows)
        .groupBy("trial", "client")
        .agg(
            F.sum(F.when(came, F.col("change")).otherwise(0)).alias("received"),
            F.sum(F.when(went, -F.col("change")).otherwise(0)).alias("acknowledged"),
            F.max(F.when(F.col("time_us") >= F.col("begin_us"), F.col("held"))).alias("most"),
            F.bool_or(F.col("event") == "detached").alias("left"),
            (~F.bool_or("told")).alias("untold"),
        )
        .groupBy("trial")
        .agg(
            F.count(F.when(F.col("received") > 0, 1)).alias("consumers"),
            F.sum("received").alias("received"),
            F.sum("acknowledged").alias("acknowledged"),
            F.max("most").alias("most"),
            F.count(F.when(F.col("left"), 1)).alias("left"),
            F.count(F.when(F.col("untold") & (F.col("received") > 0), 1)).alias("untold"),
        )
    )


def _with_held(rows: DataFrame) -> DataFrame:
    """Adds `change`, the messages that a row gives or takes, and `held`, those that its consumer has then."""
    again = Window.partitionBy("trial", "client", "producer", "sequence", "event").orderBy("time")
    first = F.row_number().over(again) == 1
    sign = F.when(F.col("event") == "received", 1).when(F.col("event") == "acknowledged", -1).otherwise(0)
    changes = rows.withColumn("change", F.when(first, sign * F.col("messages")).otherwise(0))
    one = Window.partitionBy("trial", "client").orderBy("time", "change")
    return changes.withColumn("held", F.sum("change").over(one.rowsBetween(Window.unboundedPreceding, 0)))
