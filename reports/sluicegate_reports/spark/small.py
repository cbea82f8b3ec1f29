"""Small frames, which are part of the plan."""

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

_ARROW = {
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "string": pa.string(),
    "boolean": pa.bool_(),
    "array<bigint>": pa.list_(pa.int64()),
}


def small(spark: SparkSession, rows: Sequence[tuple[object, ...]], ddl: str) -> DataFrame:
    """A frame of a few rows, which are part of the plan: no job has to run to send them anywhere.

    :param ddl: names and types of the columns.
    """
    fields = [part.split() for part in ddl.split(", ")]
    columns = list(zip(*rows, strict=True)) or [()] * len(fields)
    arrays = [pa.array(column, _ARROW[kind]) for column, (_, kind) in zip(columns, fields, strict=True)]
    return spark.createDataFrame(pa.table(arrays, names=[name for name, _ in fields]), ddl)
