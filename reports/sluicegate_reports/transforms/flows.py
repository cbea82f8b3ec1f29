"""Flows: what a rate limit admitted or not, from the decision log and from observations.

Columns: `lane`, `source` (`log` or `clients`), `client` (null where it is not told), `at_us` (us since the
lane began, by the source's own clock), `amount` (in what the lane counts), `window_ms` (how exact the time
is: 0, or the length of a summary's window), `action`:

- `admitted`: it passed; a producer's message when it was acknowledged, a consumer's when it came;
- `refused`, `dropped`; `held`: it has to wait, and is admitted later as a row of its own;
- `offered`: a client wants it (clients only: what a gateway is asked is what it admits, refuses and drops);
- `failed`: no answer came to a client, or none that tells whether it passed;
- `otherwise`: refused, dropped or held by another policy, so that this limit was not asked.

`messages` is how many a row stands for, `until_us` until when a gateway said that it holds it (null of
others).
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sluicegate_reports.transforms.lanes import ALL_TOPICS

LOG, CLIENTS = "log", "clients"
COLUMNS = (
    *("lane", "source", "client", "at_us", "amount", "window_ms", "action"),
    *("messages", "until_us"),
)

_ATTACHING = ("attach_producer", "attach_consumer")
_OF_LOG = {
    "allow": "admitted",
    "rewrite": "admitted",
    "reject": "refused",
    "drop": "dropped",
    "delay": "held",
}
_EDGE_US = 100_000
"""More than the clocks of one machine, or estimated ones, are apart."""
_KEYS = ("system", "door", "topic", "operation")


def from_decisions(decisions: DataFrame, lanes: DataFrame) -> DataFrame:
    """The decisions that belong to a lane; what was only observed (`would_...`) is none.

    :param decisions: columns of the decision log.
    :param lanes: see `lanes.lanes`; small.
    """
    attaching = F.col("operation").isin(*_ATTACHING)
    asked = decisions.where(F.col("action").isin(*_OF_LOG)).select(
        "system",
        "door",
        F.when(attaching, F.lit(ALL_TOPICS)).otherwise(F.col("topic")).alias("topic"),
        F.when(attaching, F.lit("attach")).otherwise(F.col("operation")).alias("operation"),
        F.col("subscription").alias("of_subscription"),
        "client",
        F.unix_micros("time").alias("time_us"),
        "bytes",
        F.when(attaching, F.col("decisions")).otherwise(F.col("messages")).alias("messages"),
        F.col("window").alias("window_ms"),
        "action",
        F.col("policy").alias("by_policy"),
        _other_policies(decisions).alias("others"),
        (F.col("delay") / 1000).alias("delay_us"),
    )
    limited = F.col("action").isin("reject", "drop", "delay")
    among_others = F.coalesce(F.array_contains("others", F.col("policy")), F.lit(False))
    by_this = (F.col("by_policy") == F.col("policy")) | among_others
    by_another = limited & ~F.coalesce(by_this, F.lit(True))
    return _joined(asked, lanes, "gate_begin_us", "gate_end_us").select(
        "lane",
        F.lit(LOG).alias("source"),
        "client",
        "at_us",
        _amount(),
        "window_ms",
        F.when(by_another, "otherwise").otherwise(_renamed(F.col("action"), _OF_LOG)).alias("action"),
        "messages",
        F.when((F.col("action") == "delay") & ~by_another, F.col("at_us") + F.col("delay_us"))
        .cast("bigint")
        .alias("until_us"),
    )


def from_observations(observations: DataFrame, lanes: DataFrame) -> DataFrame:
    """What clients saw that belongs to a lane.

    :param observations: columns of the observations.
    :param lanes: see `lanes.lanes`; small.
    """
    event, of_producer = F.col("event"), F.col("role") == "producer"
    attaching = event.isin("attached", "attach_refused")
    operation = F.when(attaching, "attach").when(of_producer, "publish").otherwise("dispatch")
    action = (
        F.when(event == "attached", "admitted")
        .when(event == "attach_refused", "refused")
        .when(of_producer & (event == "sent"), "offered")
        .when(of_producer & (event == "acknowledged"), "admitted")
        .when(of_producer & (event == "refused"), "refused")
        .when(of_producer & (event == "failed"), "failed")
        .when(~of_producer & (event == "received"), "admitted")
    )
    seen = observations.select(
        "system",
        "door",
        F.when(attaching, F.lit(ALL_TOPICS)).otherwise(F.col("topic")).alias("topic"),
        operation.alias("operation"),
        F.col("subscription").alias("of_subscription"),
        "client",
        F.unix_micros("time").alias("time_us"),
        "bytes",
        "messages",
        F.lit(0).alias("window_ms"),
        action.alias("action"),
    ).where(F.col("action").isNotNull())
    return _joined(seen, lanes, "begin_us", "end_us").select(
        "lane",
        F.lit(CLIENTS).alias("source"),
        "client",
        "at_us",
        _amount(),
        "window_ms",
        "action",
        "messages",
        F.lit(None).cast("bigint").alias("until_us"),
    )


def _joined(rows: DataFrame, lanes: DataFrame, begin: str, end: str) -> DataFrame:
    # A window belongs to the lane if a part of it does.
    # What a gateway decided just before belongs to a first trial too: clocks are known to some ms, and one
    # message less in a bucket that was full makes every later refusal look wrong.
    of_gate = begin.startswith("gate")
    early_us = F.when(F.col("full"), _EDGE_US).otherwise(0) if of_gate else F.lit(0)
    begun = F.col("time_us") + F.col("window_ms") * 1000 >= F.col(begin) - early_us
    in_time = begun & (F.col("time_us") < F.col(end))
    whose = F.col("subscription").isNull() | (F.col("subscription") == F.col("of_subscription"))
    at_us = F.greatest(F.col("time_us") - F.col(begin), F.lit(0))
    # One number is compared instead of four texts, which takes a quarter of the time. That two of them are
    # equal by chance has to be expected once in 10^17 topics.
    key = F.xxhash64(*_KEYS).alias("key")
    others = [name for name in rows.columns if name not in _KEYS]
    keyed = rows.select(key, *others)
    return (
        keyed.join(F.broadcast(lanes.select("*", key)), on="key", how="inner")
        .where(in_time & whose)
        .withColumn("at_us", at_us)
    )


def _amount() -> Column:
    return F.when(F.col("counts") == "bytes", F.col("bytes")).otherwise(F.col("messages")).alias("amount")


def _other_policies(decisions: DataFrame) -> Column:
    """Further policies that a decision names beside the one that decided."""
    if "other_reasons" in decisions.columns:
        return F.col("other_reasons.policy")
    return F.lit(None).cast("array<string>")


def _renamed(column: Column, names: dict[str, str]) -> Column:
    first, *others = names.items()
    renamed = F.when(column == first[0], first[1])
    for old, new in others:
        renamed = renamed.when(column == old, new)
    return renamed
