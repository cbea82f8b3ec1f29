"""The clocks of gates and clients: by how much they differ, from who saw a message when.

A gate admits a message after its client sent it and before its client is told. Whatever the order in which
messages were decided, that is true of the n-th of each when all three are sorted by time: of n matched pairs
with a <= b the sorted lists have it too. So each message bounds the difference from both sides, and the
narrowest bounds hold. Where the log tells of k more messages than were acknowledged (the broker refused them,
or nobody was told), any of them may come first: the n-th of the log is then compared with the n-th that was
told and with the (n-k)-th that was sent, and the other way round where it tells of fewer. Refusals that name
their decision are pairs of their own.

That is done for all clients of a topic together, and for each client that the log knows by the name that the
observations have, which is so on Kafka. Topics and clients that several gates served are left out: their
clocks may differ, and the n-th is then no longer the same.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from sluicegate_reports.transforms.attribution import MARKED

EVERYBODY = "*"
"""In place of a client: all of an arm together."""
_ARM = ("system", "door", "topic")
_WHOSE = (*_ARM, "who")
_START_S = 20
_FIRST = 1_000
"""Messages of a topic, and of a client on it, that are looked at, from its start: more would narrow the
bounds by little."""


def skew(decisions: DataFrame, observations: DataFrame) -> DataFrame:
    """Bounds of gate minus client, in us.

    :param decisions: columns of the decision log.
    :param observations: columns of the observations.
    :return: `system`, `door`, `gateway`, `who` (a client, or EVERYBODY), `pairs` (messages that bound it),
        `at_least_us`, `at_most_us`; if the first is above the second, the clocks have drifted during the run.
    """
    answers = _answers(observations, "acknowledged")
    sent = _numbered(answers, "sent_us", "last")
    told = _numbered(answers, "told_us", "first")
    counted = answers.groupBy(*_WHOSE).agg(F.count("told_us").alias("told_messages"))
    decided = _decided(decisions).join(counted, on=list(_WHOSE), how="inner")
    # What only one of the two tells of may stand anywhere before the n-th of the other.
    more = F.col("logged_messages") - F.col("told_messages")
    by_order = (
        decided.withColumn("sent_number", F.col("last") - F.greatest(more, F.lit(0)))
        .withColumn("told_number", F.col("first") + F.greatest(-more, F.lit(0)))
        .join(sent.withColumnRenamed("last", "sent_number"), on=[*_WHOSE, "sent_number"], how="left")
        .join(told.withColumnRenamed("first", "told_number"), on=[*_WHOSE, "told_number"], how="left")
        .select("system", "door", "gateway", "who", "decided_us", "window_ms", "sent_us", "told_us")
    )
    bounds = by_order.unionByName(_by_id(decisions, observations)).where(
        F.col("sent_us").isNotNull() | F.col("told_us").isNotNull()
    )
    return (
        bounds.groupBy("system", "door", "gateway", "who")
        .agg(
            F.count("decided_us").alias("pairs"),
            F.max(F.col("decided_us") - F.col("told_us")).alias("at_least_us"),
            F.min(F.col("decided_us") + F.col("window_ms") * 1000 - F.col("sent_us")).alias("at_most_us"),
        )
        .where(F.col("at_least_us").isNotNull() & F.col("at_most_us").isNotNull())
    )


def _answers(observations: DataFrame, event: str, *columns: str) -> DataFrame:
    """When messages were sent and answered so, for each client and for everybody."""
    wanted = (F.col("role") == "producer") & (F.col("event") == event) & F.col("latency_ns").isNotNull()
    told_us = F.unix_micros("time")
    return observations.where(wanted).select(
        *_ARM,
        told_us.alias("told_us"),
        (told_us - F.floor(F.col("latency_ns") / 1000)).alias("sent_us"),
        F.explode(F.array(F.lit(EVERYBODY), F.col("client"))).alias("who"),
        *columns,
    )


def _by_id(decisions: DataFrame, observations: DataFrame) -> DataFrame:
    """Refused messages whose text names their decision: no other can be meant."""
    marked = F.regexp_extract(F.coalesce("text", F.lit("")), MARKED, 1).alias("decision_id")
    refused = _answers(observations, "refused", "text").select(*_WHOSE, "sent_us", "told_us", marked)
    rows = decisions.where((F.col("operation") == "publish") & F.col("decision_id").isNotNull()).select(
        *_ARM,
        "gateway",
        "decision_id",
        F.unix_micros("time").alias("decided_us"),
        F.col("window").alias("window_ms"),
    )
    return rows.join(refused, on=[*_ARM, "decision_id"], how="inner").select(
        "system", "door", "gateway", "who", "decided_us", "window_ms", "sent_us", "told_us"
    )


def ahead_us(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], float]:
    """By how much gates' clocks are ahead of the clients': the middle of the bounds, by system and door.

    Where no difference is within the bounds, that is the likeliest, and there is no entry. Of all clients and
    gates of an arm those bounds are taken that hold for all; where none do, those of everybody together.

    :param rows: see `skew`.
    """
    arms: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        arms.setdefault((row["system"], row["door"]), []).append(row)
    found = {}
    for arm, told in arms.items():
        low = max(row["at_least_us"] for row in told)
        high = min(row["at_most_us"] for row in told)
        if low > high:
            chosen = [row for row in told if row["who"] == EVERYBODY] or told
            low = sum(row["at_least_us"] for row in chosen) / len(chosen)
            high = sum(row["at_most_us"] for row in chosen) / len(chosen)
        if not low <= 0 <= high:
            found[arm] = (low + high) / 2
    return found


def _decided(decisions: DataFrame) -> DataFrame:
    """When what was admitted was decided, with the numbers of its first and last message."""
    admitted = decisions.where((F.col("operation") == "publish") & F.col("action").isin("allow", "rewrite"))
    # Only the start of each topic is sorted, by its own clock, which may be hours away from the clients'.
    starts = admitted.groupBy(*_ARM).agg(F.min("time").alias("start"))
    early = F.col("time") < F.col("start") + F.expr(f"INTERVAL {_START_S} SECONDS")
    name = F.substring_index("client", "@", 1)
    whose = F.explode(F.array_compact(F.array(F.lit(EVERYBODY), name))).alias("who")
    totals = admitted.select(*_ARM, whose, "messages").groupBy(*_WHOSE)
    counted = totals.agg(F.sum("messages").alias("logged_messages"))
    begun = admitted.join(F.broadcast(starts), on=list(_ARM), how="inner").where(early)
    rows = begun.select(
        *_ARM,
        "gateway",
        whose,
        F.unix_micros("time").alias("decided_us"),
        "messages",
        F.col("window").alias("window_ms"),
    )
    up_to = Window.partitionBy(*_WHOSE).orderBy("decided_us").rowsBetween(Window.unboundedPreceding, 0)
    whole = Window.partitionBy(*_WHOSE)
    one_gate = F.min("gateway").over(whole) == F.max("gateway").over(whole)
    return (
        rows.withColumn("last", F.sum("messages").over(up_to))
        .withColumn("one_gate", one_gate)
        .where((F.col("last") <= _FIRST) & F.col("one_gate"))
        .withColumn("first", F.col("last") - F.col("messages") + 1)
        .drop("messages", "one_gate")
        .join(F.broadcast(counted), on=list(_WHOSE), how="inner")
    )


def _numbered(rows: DataFrame, time: str, number: str) -> DataFrame:
    nth: Column = F.row_number().over(Window.partitionBy(*_WHOSE).orderBy(time)).cast("bigint")
    return rows.withColumn(number, nth).where(F.col(number) <= _FIRST).select(*_WHOSE, number, time)
