"""Limits on single messages: what is above them is refused, what is not passes."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812


def messages(observations: DataFrame, tries: DataFrame, measure: str) -> DataFrame:
    """Judge each answer to a producer by what the message had and what the limit says.

    What is refused with another code than messages above the limit are is refused by another policy, rightly.

    :param observations: columns of the observations.
    :param tries: see `lanes.tries`, of sizes or of delays that producers ask for.
    :param measure: column that the limit is on: `bytes` or `delay_ms`, where null is none.
    :return: `trial`, `above` (answers about messages above the limit), `up_to` (about others), `refused`,
        `wrongly_admitted`, `wrongly_refused`, `largest_admitted`.
    """
    answers = observations.where(
        (F.col("role") == "producer") & F.col("event").isin("acknowledged", "refused")
    ).select(
        "system",
        "door",
        "topic",
        F.col("scenario").alias("phase"),
        "event",
        F.coalesce("code", F.lit("")).alias("code"),
        F.coalesce(F.col(measure), F.lit(0)).alias("value"),
    )
    judged = answers.join(F.broadcast(tries), on=["system", "door", "topic", "phase"], how="inner")
    above, admitted = F.col("value") > F.col("limit"), F.col("event") == "acknowledged"
    by_limit = (
        judged.where(above & ~admitted).select("trial", "code", F.lit(True).alias("by_limit")).distinct()
    )
    judged = judged.join(by_limit, on=["trial", "code"], how="left")
    return judged.groupBy("trial").agg(
        F.count(F.when(above, 1)).alias("above"),
        F.count(F.when(~above, 1)).alias("up_to"),
        F.count(F.when(~admitted, 1)).alias("refused"),
        F.count(F.when(above & admitted, 1)).alias("wrongly_admitted"),
        F.count(F.when(~above & ~admitted & F.col("by_limit"), 1)).alias("wrongly_refused"),
        F.max(F.when(admitted, F.col("value"))).alias("largest_admitted"),
    )


def unacked(observations: DataFrame, tries: DataFrame) -> DataFrame:
    """The most messages that a consumer had and had not acknowledged.

    :param observations: columns of the observations.
    :param tries: see `lanes.tries`, of unacknowledged messages.
    :return: `trial`, `consumers`, `received`, `most`.
    """
    change = F.when(F.col("event") == "received", F.col("messages")).otherwise(-F.col("messages"))
    rows = (
        observations.where((F.col("role") == "consumer") & F.col("event").isin("received", "acknowledged"))
        .select("system", "door", "topic", "client", "time", "event", change.alias("change"))
        .join(F.broadcast(tries), on=["system", "door", "topic"], how="inner")
        .where(F.unix_micros("time") < F.col("end_us"))
    )
    one = Window.partitionBy("trial", "client").orderBy("time", "change")
    held = F.sum("change").over(one.rowsBetween(Window.unboundedPreceding, 0))
    return (
        rows.withColumn("held", held)
        .groupBy("trial")
        .agg(
            F.count_distinct("client").alias("consumers"),
            F.sum(F.when(F.col("change") > 0, F.col("change")).otherwise(0)).alias("received"),
            F.max("held").alias("most"),
        )
    )
