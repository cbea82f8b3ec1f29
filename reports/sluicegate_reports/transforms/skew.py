"""Clock skew of gates and clients, from the times at which each saw a message.

A gateway admits a message after its client sent it and before its client is told. Whatever the order in which
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
_MARK = "[sluicegate "
"""With this begins what `attribution.MARKED` finds."""
_SECOND_US = 1_000_000
_START_S = 20
_FIRST = 1_000
"""Messages of a topic, and of a client on it, that are looked at, from its start: more would narrow the
bounds by little."""


def skew(decisions: DataFrame, observations: DataFrame) -> DataFrame:
    """Bounds of gate minus client, in us.

    Each log is counted by seconds first, in a job of its own: what a second pass then sorts are only the
    messages that are looked at.

    :param decisions: columns of the decision log.
    :param observations: columns of the observations.
    :return: `system`, `door`, `gateway`, `who` (a client, or EVERYBODY), `pairs` (messages that bound it),
        `at_least_us`, `at_most_us`; if the first is above the second, the clocks have drifted during the run.
    """
    answers = _answers(observations, "acknowledged")
    # So many messages have both of their times before the end of this second.
    second = F.floor(F.greatest("sent_us", "told_us") / _SECOND_US).alias("second")
    by_second = answers.groupBy(*_ARM, "client", second).agg(F.count("told_us").alias("messages"))
    firsts = _firsts(by_second).localCheckpoint()
    counted = firsts.select(*_WHOSE, F.col("messages").alias("told_messages"))
    told = _times(_until(answers, firsts, F.least("sent_us", "told_us")))
    decided = _decided(decisions).join(F.broadcast(counted), on=list(_WHOSE), how="inner")
    # What only one of the two tells of may stand anywhere before the n-th of the other.
    more = F.col("logged_messages") - F.col("told_messages")
    by_order = decided.join(told, on=list(_WHOSE), how="inner").select(
        *("system", "door", "gateway", "who", "decided_us", "window_ms"),
        _nth("sent", F.col("last") - F.greatest(more, F.lit(0))).alias("sent_us"),
        _nth("told", F.col("first") + F.greatest(-more, F.lit(0))).alias("told_us"),
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
    """When messages were sent and answered so."""
    wanted = (F.col("role") == "producer") & (F.col("event") == event) & F.col("latency_ns").isNotNull()
    told_us = F.unix_micros("time")
    return observations.where(wanted).select(
        *_ARM,
        "client",
        told_us.alias("told_us"),
        (told_us - F.floor(F.col("latency_ns") / 1000)).alias("sent_us"),
        *columns,
    )


def _each(rows: DataFrame) -> DataFrame:
    """Each row twice: for its client, as `who`, and for everybody."""
    return rows.withColumn("who", F.explode(F.array_compact(F.array(F.lit(EVERYBODY), F.col("client")))))


def _firsts(by_second: DataFrame) -> DataFrame:
    """How many messages there are of a topic and of each of its clients, and until when the first came.

    :param by_second: the columns of `_ARM`, `client`, `second`, `messages`.
    :return: the columns of `_WHOSE`, `messages`, `until_us`: the end of the second of message `_FIRST`.
    """
    sums = _each(by_second).groupBy(*_WHOSE, "second").agg(F.sum("messages").alias("messages"))
    before = Window.partitionBy(*_WHOSE).orderBy("second").rowsBetween(Window.unboundedPreceding, -1)
    begins = F.coalesce(F.sum("messages").over(before), F.lit(0)) < _FIRST
    return (
        sums.withColumn("until_us", F.when(begins, (F.col("second") + 1) * _SECOND_US))
        .groupBy(*_WHOSE)
        .agg(F.sum("messages").alias("messages"), F.max("until_us").alias("until_us"))
    )


def _until(rows: DataFrame, firsts: DataFrame, at_us: Column) -> DataFrame:
    """Those rows that may be among the first of their client or of everybody, once for each, as `who`."""
    told = firsts.select(*_WHOSE, "until_us")
    of_all = told.where(F.col("who") == EVERYBODY).select(*_ARM, F.col("until_us").alias("all_until_us"))
    of_one = told.withColumnRenamed("who", "client")
    everybody = F.when(at_us < F.col("all_until_us"), F.lit(EVERYBODY))
    client = F.when(at_us < F.col("until_us"), F.col("client"))
    return (
        rows.join(F.broadcast(of_all), on=list(_ARM), how="inner")
        .join(F.broadcast(of_one), on=[*_ARM, "client"], how="left")
        .where(at_us < F.greatest("all_until_us", "until_us"))
        .withColumn("who", F.explode(F.array_compact(F.array(everybody, client))))
        .drop("client", "all_until_us", "until_us")
    )


def _by_id(decisions: DataFrame, observations: DataFrame) -> DataFrame:
    """Refused messages whose text names their decision: no other can be meant."""
    # Most texts name none, and looking for a word takes a small part of the time of an expression.
    naming = observations.where(F.col("text").contains(_MARK))
    marked = F.regexp_extract("text", MARKED, 1).alias("decision_id")
    refused = _answers(naming, "refused", "text").select(*_ARM, "client", "sent_us", "told_us", marked)
    rows = decisions.where((F.col("operation") == "publish") & F.col("decision_id").isNotNull()).select(
        *_ARM,
        "gateway",
        "decision_id",
        F.unix_micros("time").alias("decided_us"),
        F.col("window").alias("window_ms"),
    )
    return _each(rows.join(refused, on=[*_ARM, "decision_id"], how="inner")).select(
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
    admitted = decisions.where(
        (F.col("operation") == "publish") & F.col("action").isin("allow", "rewrite")
    ).select(
        *_ARM,
        "gateway",
        F.substring_index("client", "@", 1).alias("client"),
        F.unix_micros("time").alias("decided_us"),
        "messages",
        F.col("window").alias("window_ms"),
    )
    second = F.floor(F.col("decided_us") / _SECOND_US).alias("second")
    by_second = (
        admitted.groupBy(*_ARM, "client", "gateway", second)
        .agg(F.sum("messages").alias("messages"), F.min("decided_us").alias("start_us"))
        .localCheckpoint()
    )
    firsts = _firsts(by_second)
    # Only the start of each topic is looked at, by its own clock, which may be hours away from the clients'.
    starts = by_second.groupBy(*_ARM).agg((F.min("start_us") + _START_S * _SECOND_US).alias("early_us"))
    rows = _until(admitted, firsts, F.col("decided_us")).join(F.broadcast(starts), on=list(_ARM), how="inner")
    begun = rows.where(F.col("decided_us") < F.col("early_us"))
    up_to = Window.partitionBy(*_WHOSE).orderBy("decided_us").rowsBetween(Window.unboundedPreceding, 0)
    counted = firsts.select(*_WHOSE, F.col("messages").alias("logged_messages"))
    return (
        begun.withColumn("last", F.sum("messages").over(up_to))
        .where(F.col("last") <= _FIRST)
        .withColumn("first", F.col("last") - F.col("messages") + 1)
        .drop("messages", "early_us")
        .join(F.broadcast(_of_one_gate(by_second, starts)), on=list(_WHOSE), how="left_semi")
        .join(F.broadcast(counted), on=list(_WHOSE), how="inner")
    )


def _of_one_gate(by_second: DataFrame, starts: DataFrame) -> DataFrame:
    """Topics and clients that one gate served in the time that is looked at."""
    early = F.col("second") * _SECOND_US < F.col("early_us")
    begun = by_second.join(F.broadcast(starts), on=list(_ARM), how="inner").where(early)
    gates = _each(begun).groupBy(*_WHOSE).agg(F.min("gateway").alias("one"), F.max("gateway").alias("other"))
    return gates.where(F.col("one") == F.col("other"))


def _times(rows: DataFrame) -> DataFrame:
    """When the first messages of each were sent and told, sorted: the columns of `_WHOSE`, `sent`, `told`.

    They are as many as are set against the log at most, and no row has to be exchanged again to be numbered.
    """
    return rows.groupBy(*_WHOSE).agg(
        *(
            F.slice(F.sort_array(F.collect_list(f"{name}_us")), 1, _FIRST).alias(name)
            for name in ("sent", "told")
        )
    )


def _nth(times: str, number: Column) -> Column:
    """One of these times, from 1; null if there are not so many."""
    return F.get(times, (number - 1).cast("int"))
