"""Metrics of other packages: their own transforms over the observations."""

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

from sluicegate_reports.jobs.measuring import Measures, Rows
from sluicegate_reports.model.runs import Trial, measured_as
from sluicegate_reports.registry import metrics
from sluicegate_reports.transforms import lanes
from sluicegate_reports.transforms.packed import TOPIC_COLUMNS
from sluicegate_reports.transforms.packing import Kept
from sluicegate_reports.verdicts import Figures

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TRIES = (
    "trial int, policy string, system string, door string, phase string, topic string, subscription string, "
    "limit double, begin_us bigint, end_us bigint"
)


def further(spark: "SparkSession", trials: Sequence[Trial], observations: "DataFrame | None") -> Rows:
    """What they find of the trials of their families: `metric`, `trial`, `value`."""
    from sluicegate_reports.spark.small import small

    values: Rows = []
    for metric in metrics():
        if metric.transform is None or observations is None:
            continue
        for family in metric.families:
            if any(measured_as(trial).family is family for trial in trials):
                tried = small(spark, lanes.tries(trials, family), _TRIES)
                frame = metric.transform(observations, tried)
                rows = frame.select("trial", metric.name).collect()
                values += [
                    {"metric": metric.name, "trial": row["trial"], "value": row[metric.name]} for row in rows
                ]
    return values


def rows_kept(frame: "DataFrame", kept: Kept) -> "DataFrame":
    """The rows that count, of Spark's own readers."""
    from pyspark.sql import Column
    from pyspark.sql import functions as F  # noqa: N812

    if kept.run:
        frame = frame.where(F.col("run") == kept.run)
    if kept.systems is not None:
        frame = frame.where(F.col("system").isin(*kept.systems))
    for topic_key in sorted(kept.without):
        columns = (F.col(name) == value for name, value in zip(TOPIC_COLUMNS, topic_key, strict=True))
        frame = frame.where(~reduce(Column.__and__, columns))
    return frame


def further_figures(number: int, measures: Measures) -> Figures:
    """Values of one trial, by metric."""
    return {row["metric"]: row["value"] for row in measures.further if row["trial"] == number}
