"""Refusals against a perfect gate: each decision is judged by the oracle, in order of time."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sluicegate_reports.ideal import judge

if TYPE_CHECKING:
    import pandas as pd

SCHEMA = (
    "lane int, admitted bigint, refused bigint, wrongly_admitted bigint, wrongly_refused bigint, "
    "ideal_refused bigint"
)
_SLACK_US = 2
"""A gate decides to the nanosecond and the log tells the microsecond: a refill may fall on either side."""


def refusals(flows: DataFrame, lanes: DataFrame, within_us: int) -> DataFrame:
    """Judge the log of each lane with a row for each decision; those with summed up allows have no row here.

    What a gate holds is not judged: it waits for its turn behind others, however much the bucket holds.
    Where Spark runs, Python must have this package.

    :param flows: see `flows`.
    :param lanes: see `lanes.lanes`.
    :param within_us: from each lane's start: a lane is judged in one piece, in memory.
    :return: columns of `SCHEMA`.
    """
    decided = flows.where((F.col("source") == "log") & F.col("action").isin("admitted", "refused", "dropped"))
    summed_up = decided.where(F.col("window_ms") > 0).select("lane").distinct()
    rows = (
        decided.where(F.col("at_us") < within_us)
        .join(summed_up, on="lane", how="left_anti")
        .join(F.broadcast(lanes.select("lane", "rate", "burst")), on="lane", how="inner")
        .select("lane", "rate", "burst", "at_us", "amount", (F.col("action") == "admitted").alias("passed"))
    )
    return rows.groupBy("lane").applyInPandas(_judged, SCHEMA)


def _judged(rows: "pd.DataFrame") -> "pd.DataFrame":
    import pandas as pd

    ordered = rows.sort_values(["at_us", "passed"], ascending=[True, False])
    first = ordered.iloc[0]
    found = judge(_requests(ordered), float(first["rate"]), float(first["burst"]), _SLACK_US)
    return pd.DataFrame(
        {
            "lane": [int(first["lane"])],
            "admitted": [found.admitted],
            "refused": [found.refused],
            "wrongly_admitted": [found.wrongly_admitted],
            "wrongly_refused": [found.wrongly_refused],
            "ideal_refused": [found.ideal_refused],
        }
    )


def _requests(rows: "pd.DataFrame") -> Iterator[tuple[int, int, bool]]:
    yield from zip(rows["at_us"].tolist(), rows["amount"].tolist(), rows["passed"].tolist(), strict=True)
