"""Latency and holds over time: how long answers took and how long gates held, by interval."""

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.group import GroupedData

from sluicegate_reports.runs import Trial
from sluicegate_reports.transforms.lanes import microseconds

_ACCURACY = 1_000
_STRETCHES = 240
"""Of a run, at most."""
_SECOND_US = 1_000_000


def span(trials: Sequence[Trial]) -> tuple[int, int, int]:
    """Begin and end of a run in us since 1970, and the length of its stretches in us: whole seconds."""
    begin_us = min(microseconds(trial.start) for trial in trials)
    end_us = max(microseconds(trial.end) for trial in trials)
    return begin_us, end_us, max(1, -(-(end_us - begin_us) // (_STRETCHES * _SECOND_US))) * _SECOND_US


def answers(observations: DataFrame, begin_us: int, end_us: int, width_us: int) -> DataFrame:
    """How long producers waited for the answer to a message that was stored.

    :param observations: columns of the observations.
    :param begin_us: of the run, in us since 1970; what lies outside of it does not count.
    :param width_us: of a stretch.
    :return: `system`, `door`, `stretch` (0 begins with the run), `median_ms`, `longest_ms`.
    """
    answered = (F.col("role") == "producer") & (F.col("event") == "acknowledged")
    timed = observations.where(answered & F.col("latency_ns").isNotNull())
    return _in_stretches(timed, F.lit(0), begin_us, end_us, width_us).agg(
        (F.percentile_approx("latency_ns", 0.5, _ACCURACY) / 1e6).alias("median_ms"),
        (F.max("latency_ns") / 1e6).alias("longest_ms"),
    )


def holds(
    decisions: DataFrame,
    begin_us: int,
    end_us: int,
    width_us: int,
    ahead_us: Mapping[tuple[str, str], float],
) -> DataFrame:
    """The longest hold that gates announced in each stretch.

    :param decisions: columns of the decision log.
    :param ahead_us: by how much gates' clocks are ahead of the clients', by system and door.
    :return: `system`, `door`, `stretch`, `longest_ms`; see `answers`.
    """
    ahead = F.lit(0)
    for (system, door), later_us in ahead_us.items():
        arm = (F.col("system") == system) & (F.col("door") == door)
        ahead = F.when(arm, F.lit(round(later_us))).otherwise(ahead)
    held = decisions.where(F.col("action") == "delay")
    return _in_stretches(held, ahead, begin_us, end_us, width_us).agg(
        (F.max("delay") / 1e6).alias("longest_ms")
    )


def _in_stretches(
    rows: DataFrame, ahead_us: Column, begin_us: int, end_us: int, width_us: int
) -> "GroupedData":
    at_us = F.unix_micros("time") - ahead_us - begin_us
    inside = (at_us >= 0) & (at_us < end_us - begin_us)
    return rows.where(inside).groupBy(
        "system", "door", F.floor(at_us / width_us).cast("int").alias("stretch")
    )
