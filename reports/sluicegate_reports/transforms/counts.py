"""Counts: which clients were attached at each attempt to attach, and whether its answer was right.

An attempt takes time, and clients try at once. So an attempt is judged by what is certain: one that was let
in was wrong if more than the limit were surely there when it was told so, and one that was refused was wrong
if fewer than the limit can have been there at any time of the attempt.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from sluicegate_reports.registry.arms import MEMBERS, PRODUCERS, SUBSCRIPTIONS
from sluicegate_reports.transforms import attribution

OWN, UNCLEAR, OTHER = "own", "unclear", "other"
"""Whose doing a refusal is: the trial's policy, perhaps its, surely not."""
_KEPT = ("trial", "group", "policy", "limit", "begin_us")
_REFUSAL = (
    *_KEPT,
    *("event", "told_us", "began_us", "client", "whose", "policies", "how", "code", "about_it"),
)


def attachments(
    observations: DataFrame,
    tries: DataFrame,
    decisions: DataFrame | None = None,
    ahead_us: Mapping[tuple[str, str], float] | None = None,
) -> DataFrame:
    """Judge each attempt by how many were attached meanwhile, as the clients saw it.

    A subscription counts from its first consumer on and stays; producers and consumers count until they
    leave.

    :param observations: columns of the observations.
    :param tries: see `lanes.tries`, of counts.
    :param decisions: the decision log, to tell which policy refused; see `attribution.attributed`.
    :param ahead_us: by how much gates' clocks are ahead of the clients', by system and door.
    :return: `trial`, `event` (attached or attach_refused), `whose` (OWN, UNCLEAR or OTHER; null of attached),
        `policies`, `how` and `code` of refusals, `answers`, `most` (at once, after any of them), `wrong`.
    """
    rows = _events(observations, tries, decisions, ahead_us)
    points = rows.withColumn("whose", _whose()).select("*", F.explode(_points()).alias("point"))
    points = points.select("*", "point.*")
    by_time = Window.partitionBy("trial", "group").orderBy("at_us", "place")
    so_far = by_time.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    names = ("surely", "came", "went")
    counted = points.select("*", *(F.sum(name).over(so_far).alias(f"{name}_so_far") for name in names))
    judged = counted.where((F.col("told_us") >= F.col("begin_us")) & F.col("asks").isNotNull())
    # Of a refusal there are two points: who had left before it began, and who had come when it was told.
    answers = judged.groupBy(*_REFUSAL).agg(
        F.count(F.when(F.col("asks") == "told", 1)).alias("answers"),
        F.max("surely_so_far").alias("most"),
        F.count(F.when((F.col("event") == "attached") & (F.col("surely_so_far") > F.col("limit")), 1)).alias(
            "too_many"
        ),
        (
            F.max(F.when(F.col("asks") == "told", F.col("came_so_far")))
            - F.max(F.when(F.col("asks") == "began", F.col("went_so_far")))
        ).alias("perhaps"),
    )
    room = (F.col("perhaps") < F.col("limit")) | ~F.col("about_it")
    wrong = F.when(F.col("event") == "attached", F.col("too_many")).when(room, F.col("answers")).otherwise(0)
    return (
        answers.withColumn("wrong", wrong)
        .groupBy("trial", "event", "whose", "policies", "how", "code")
        .agg(F.sum("answers").alias("answers"), F.max("most").alias("most"), F.sum("wrong").alias("wrong"))
    )


def folded(rows: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """The figures of one trial out of its rows of `attachments`; nothing of no rows.

    :return: `attempts`, `attached`, `refused` (by its policy), `otherwise` (surely not by it), `most`,
        `wrongly_admitted`, `wrongly_refused`, `unclear` (refusals that may be its), `doubtful` (of them,
        those that would be wrong if they were).
    """
    told = list(rows)
    if not told:
        return {}

    def total(name: str, event: str, whose: str | None = None) -> int:
        return sum(row[name] for row in told if (row["event"], row["whose"]) == (event, whose))

    refused = "attach_refused"
    attached, own, unclear = (
        total("answers", "attached"),
        total("answers", refused, OWN),
        total("answers", refused, UNCLEAR),
    )
    return {
        "attempts": attached + own + unclear,
        "attached": attached,
        "refused": own,
        "otherwise": total("answers", refused, OTHER),
        "most": max((row["most"] for row in told), default=0),
        "wrongly_admitted": total("wrong", "attached"),
        "wrongly_refused": total("wrong", refused, OWN),
        "unclear": unclear,
        "doubtful": total("wrong", refused, UNCLEAR),
    }


def _whose() -> Column:
    may_be = F.array_contains("policies", F.col("policy"))
    surely = may_be & (F.size("policies") == 1) & (F.col("how") != attribution.NO_ROW)
    return F.when(
        F.col("event") == "attach_refused", F.when(surely, OWN).when(may_be, UNCLEAR).otherwise(OTHER)
    )


def _events(
    observations: DataFrame,
    tries: DataFrame,
    decisions: DataFrame | None,
    ahead_us: Mapping[tuple[str, str], float] | None,
) -> DataFrame:
    """What concerns each trial: comings, goings and refusals with the policies that may have refused.

    Jobs of their own find the few rows that tell of it, and the policies: the observations are then read once
    instead of for each use of those rows, and the plan of what follows is short.
    """
    time_us = F.unix_micros("time")
    seen = (
        observations.where(F.col("event").isin("attached", "attach_refused", "detached"))
        .select(
            "system",
            "door",
            "topic",
            "role",
            "client",
            F.col("subscription").alias("of_subscription"),
            "event",
            time_us.alias("told_us"),
            (time_us - F.floor(F.col("latency_ns") / 1000)).alias("began_us"),
            "code",
            "text",
        )
        .localCheckpoint()
    )
    refused = (
        attribution.attributed(seen.where(F.col("event") == "attach_refused"), tries, decisions, ahead_us)
        .withColumn("event", F.lit("attach_refused"))
        .localCheckpoint()
    )
    others = seen.where(F.col("event") != "attach_refused")
    both = others.unionByName(refused, allowMissingColumns=True)
    role = F.when(F.col("policy") == PRODUCERS, "producer").otherwise("consumer")
    whose = F.col("subscription").isNull() | (F.col("subscription") == F.col("of_subscription"))
    rows = (
        both.join(F.broadcast(tries), on=["system", "door", "topic"], how="inner")
        .where((F.col("role") == role) & whose & (F.col("told_us") < F.col("end_us")))
        .withColumn("group", F.when(F.col("policy") == MEMBERS, F.col("of_subscription")))
        .withColumn("began_us", F.coalesce("began_us", "told_us"))
    )
    return _of_subscriptions(rows)


def _of_subscriptions(rows: DataFrame) -> DataFrame:
    """Whoever joins or leaves a subscription that exists has nothing to do with their number.

    Adds `about_it`: false of one that the limit on their number refused although its own existed.
    """
    one = Window.partitionBy("trial", "of_subscription")
    in_order = one.orderBy(F.col("event") != "attached", "told_us", "client")
    first_us = F.min(F.when(F.col("event") == "attached", F.col("told_us"))).over(one)
    rows = rows.withColumn("first_us", first_us).withColumn("nth", F.row_number().over(in_order))
    event, of_number = F.col("event"), F.col("policy") == SUBSCRIPTIONS
    existed = F.coalesce(F.col("first_us") <= F.col("began_us"), F.lit(False)) & (event == "attach_refused")
    by_it = (F.size("policies") == 1) & F.array_contains("policies", F.col("policy"))
    beside = (event == "detached") | ((event == "attached") & (F.col("nth") > 1)) | (existed & ~by_it)
    return rows.where(~(of_number & F.coalesce(beside, F.lit(False)))).withColumn(
        "about_it", ~(of_number & existed)
    )


def _points() -> Column:
    """The moments of an event; of one time, in the order that speaks for the system.

    One that was turned away otherwise may have had a place until then: a gateway let it in, the broker did
    not.
    """

    def point(at: str, place: int, surely: int = 0, came: int = 0, went: int = 0, asks: str = "") -> Column:
        return F.struct(
            F.col(at).alias("at_us"),
            F.lit(place).alias("place"),
            F.lit(surely).alias("surely"),
            F.lit(came).alias("came"),
            F.lit(went).alias("went"),
            F.lit(asks or None).cast("string").alias("asks"),
        )

    event = F.col("event")
    return (
        F.when(
            event == "attached",
            F.array(point("began_us", 3, came=1), point("told_us", 4, surely=1, asks="told")),
        )
        .when(event == "detached", F.array(point("began_us", 0, surely=-1), point("told_us", 2, went=1)))
        .when(
            F.col("whose") == OTHER,
            F.array(
                point("began_us", 1, asks="began"),
                point("began_us", 3, came=1),
                point("told_us", 5, went=1, asks="told"),
            ),
        )
        .otherwise(F.array(point("began_us", 1, asks="began"), point("told_us", 5, asks="told")))
    )
