"""Which policy refused a client: clients get a code and a text, the gateway's rows name the policy.

What is told is looked at in this order, and the first that says anything holds:

1. `id`: the decision's id in the text, and the row of that decision;
2. `text`: words that the gateway or a system uses of one policy alone;
3. `log`: at gates, rows of refusals of the same topic, subscription and client within the time of the
   attempt; of clients that the log does not know by name (all of Pulsar's have one name), of any such client;
4. `code`: where there is no decision log, policies that answer with that code and are set on the topic.

What more than one policy may have done is told as that, and never given to one of them. A refusal at a
gateway that the log knows nothing of, with a code that policies answer with, may be theirs all the same (`no
row`).
"""

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sluicegate_reports.registry import doors, systems
from sluicegate_reports.registry.arms import CONSUMERS, MEMBERS, OF_CONSUMERS, PRODUCERS, SUBSCRIPTIONS

_TEXTS = (
    ("Producer limit reached for topic", PRODUCERS),
    ("Subscription limit reached for topic", SUBSCRIPTIONS),
    ("Subscription limit cannot be checked for topic", SUBSCRIPTIONS),
    ("Consumer limit per topic reached", CONSUMERS),
    ("Consumer limit per subscription reached", MEMBERS),
)
"""Words of the gate's refusals, which Danube has too, that one policy alone uses."""

ID, TEXT, LOG, CODE, NO_ROW = "id", "text", "log", "code", "no row"
MARKED = r"\[sluicegate ([0-9a-z]{4,}-[0-9a-z]+)\]"
"""As `sluicegate.decisions.ids` writes it."""
SLACK_US = 500_000
"""Of the clocks of gate and client, what their measured difference leaves, and of the way between them."""
_UNTOLD_US = 3_000_000
"""How long an attempt may have taken of which the observations, of version 1, do not tell it."""
_ATTACHING = ("attach_producer", "create_subscription", "attach_consumer")
_PLACE = ("system", "door", "topic")
_ATTEMPT = (*_PLACE, "role", "client", "of_subscription", "began_us", "told_us", "code", "text")


def attributed(
    refused: DataFrame,
    tries: DataFrame,
    decisions: DataFrame | None,
    ahead_us: Mapping[tuple[str, str], float] | None = None,
) -> DataFrame:
    """Say of each refused attempt which policies may have refused it.

    :param refused: `system`, `door`, `topic`, `role`, `client`, `of_subscription`, `began_us` (null if it is
        not told), `told_us`, `code`, `text`.
    :param tries: see `lanes.tries`, of counts: what is set on each topic.
    :param decisions: columns of the decision log; None if there is none.
    :param ahead_us: by how much gates' clocks are ahead of the clients', by system and door.
    :return: the columns of `refused`, `policies` (sorted; none if no policy of theirs did it) and `how`, one
        of ID, TEXT, LOG, CODE, NO_ROW, or null.
    """
    known = _by_log(refused, decisions, ahead_us or {}) if decisions is not None else _unknown(refused)
    here = tries.groupBy(*_PLACE).agg(F.collect_set("policy").alias("here"))
    rows = known.join(F.broadcast(here), on=list(_PLACE), how="inner")
    named = _named()
    answered = F.array_sort(F.array_intersect(_answering(), F.col("here")))
    ungated = [door.name for door in doors().values() if not door.gate]
    has_log = ~F.col("door").isin(*ungated) if decisions is not None else F.lit(False)
    in_log = F.size("in_log") > 0
    policies = F.when((F.col("rank") == 0) | (named.isNull() & in_log), F.col("in_log")).when(
        named.isNotNull(), F.array(named)
    )
    how = (
        F.when(F.col("rank") == 0, ID)
        .when(named.isNotNull(), TEXT)
        .when(in_log, LOG)
        .when(F.size(answered) > 0, F.when(has_log, NO_ROW).otherwise(CODE))
    )
    return rows.select(*_ATTEMPT, F.coalesce(policies, answered).alias("policies"), how.alias("how"))


def texts() -> tuple[tuple[str, str], ...]:
    """Words of the gateway's and of all systems' refusals, each with the one policy that it means."""
    return (*_TEXTS, *(told for system in systems().values() for told in system.texts))


def _named() -> Column:
    """The one policy that the words of a refusal mean; null if they mean none."""
    told = [F.when(F.col("text").contains(words), policy) for words, policy in texts()]
    return F.coalesce(*told)


def _answering() -> Column:
    """Policies that answer with a code; all that may answer a client of its kind where none was told."""
    none = F.array().cast("array<string>")
    of_role = F.when(F.col("role") == "producer", _array(PRODUCERS)).otherwise(_array(*OF_CONSUMERS))
    found = F.when(F.col("code").isNull(), of_role)
    for system in systems().values():
        for code, policies in system.codes.items():
            told = (F.col("system") == system.name) & (F.col("code") == code)
            found = found.when(told, _array(*policies))
    return F.array_intersect(found.otherwise(none), of_role)


def _array(*values: str) -> Column:
    return F.array(*(F.lit(value) for value in values))


def _unknown(refused: DataFrame) -> DataFrame:
    none = F.array().cast("array<string>").alias("in_log")
    return refused.select(*_ATTEMPT, none, F.lit(None).cast("int").alias("rank"))


def _by_log(refused: DataFrame, decisions: DataFrame, ahead_us: Mapping[tuple[str, str], float]) -> DataFrame:
    """Policies of the rows that tell of each attempt: by its id, else of its client, else of any client."""
    clients = refused.select("system", "door", F.col("client").alias("name"), F.lit(True).alias("known"))
    rows = _rejections(decisions, ahead_us).join(
        F.broadcast(clients.distinct()), on=["system", "door", "name"], how="left"
    )
    name = F.when(F.col("known"), F.col("name")).otherwise("")
    keys = F.array(F.concat(F.lit("id "), "decision_id"), _key(name, F.col("second")))
    told = rows.select(F.explode(keys).alias("key"), "policy").where(F.col("key").isNotNull())
    policies = told.groupBy("key").agg(F.collect_set("policy").alias("policies"))
    found = _asked(refused).join(policies, on="key", how="left")
    ranked = F.when(F.col("policies").isNotNull(), F.col("rank"))
    best = found.groupBy(*_ATTEMPT).agg(
        F.min(ranked).alias("rank"),
        *(
            F.flatten(F.collect_set(F.when(ranked == n, F.col("policies")))).alias(f"in_{n}")
            for n in (0, 1, 2)
        ),
    )
    of_best = F.when(F.col("rank") == 0, F.col("in_0")).when(F.col("rank") == 1, F.col("in_1"))
    return best.withColumn("in_log", F.array_sort(F.array_distinct(of_best.otherwise(F.col("in_2")))))


def _rejections(decisions: DataFrame, ahead_us: Mapping[tuple[str, str], float]) -> DataFrame:
    """Rows of refused attachments, by the clients' clock."""
    operation = F.col("operation")
    rows = decisions.where(operation.isin(*_ATTACHING) & (F.col("action") == "reject"))
    return rows.select(
        *_PLACE,
        F.when(operation == "attach_producer", "producer").otherwise("consumer").alias("role"),
        F.col("subscription").alias("of_subscription"),
        F.substring_index("client", "@", 1).alias("name"),
        F.floor(clients_us(ahead_us) / 1_000_000).alias("second"),
        "policy",
        "decision_id",
    )


def clients_us(ahead_us: Mapping[tuple[str, str], float]) -> Column:
    """The time of a decision by the clients' clock, in us since 1970."""
    time_us = F.unix_micros("time")
    for (system, door), us in ahead_us.items():
        here = (F.col("system") == system) & (F.col("door") == door)
        time_us = F.when(here, time_us - round(us)).otherwise(time_us)
    return time_us


def _asked(refused: DataFrame) -> DataFrame:
    """Each attempt with the keys that rows about it may have, and how good each of them is."""
    began_us = F.coalesce("began_us", F.col("told_us") - _UNTOLD_US) - SLACK_US
    first = F.floor(began_us / 1_000_000)
    seconds = F.sequence(first, F.floor((F.col("told_us") + SLACK_US) / 1_000_000))
    marked = F.regexp_extract(F.coalesce("text", F.lit("")), MARKED, 1)
    by_id = F.array(F.struct(F.concat(F.lit("id "), marked).alias("key"), F.lit(0).alias("rank")))
    by_time = [_keys(F.col("client"), 1, seconds), _keys(F.lit(""), 2, seconds)]
    return refused.select(*_ATTEMPT, F.explode(F.concat(by_id, *by_time)).alias("asked")).select(
        *_ATTEMPT, "asked.key", "asked.rank"
    )


def _keys(name: Column, rank: int, seconds: Column) -> Column:
    return F.transform(
        seconds, lambda second: F.struct(_key(name, second).alias("key"), F.lit(rank).alias("rank"))
    )


def _key(name: Column, second: Column) -> Column:
    whose = [F.col(column) for column in (*_PLACE, "role")]
    return F.concat_ws("\x1f", *whose, F.coalesce("of_subscription", F.lit("")), name, second.cast("string"))
