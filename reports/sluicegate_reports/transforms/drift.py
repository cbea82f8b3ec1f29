"""Drift: how far a gate's figures are from those of the system's own policies."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

_NATIVE = "native"
_PLACE = ("policy", "phase", "system", "measure")


def drift(figures: DataFrame) -> DataFrame:
    """Set each door's figures beside the native ones, both as clients saw them.

    :param figures: `policy`, `phase`, `system`, `door`, `measure`, `value`.
    :return: `policy`, `phase`, `system`, `measure`, `door`, `value`, `native`, `difference` (value - native),
        `relative` (difference / native; null if native is 0). Figures that one side lacks have no row.
    """
    native = figures.where(F.col("door") == _NATIVE).select(*_PLACE, F.col("value").alias("native"))
    beside = figures.where(F.col("door") != _NATIVE).join(native, on=list(_PLACE), how="inner")
    difference = F.col("value") - F.col("native")
    return beside.select(
        *_PLACE,
        "door",
        "value",
        "native",
        difference.alias("difference"),
        F.when(F.col("native") != 0, difference / F.col("native")).alias("relative"),
    )
